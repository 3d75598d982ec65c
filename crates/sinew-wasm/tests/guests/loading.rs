//! Modules that cannot run as actors are refused with every fault at once.

use sinew_wasm::{Engine, Guest, LoadError, StackClass, WasmNode};

use crate::kit::module;

fn faults(text: &str) -> Vec<String> {
    match Engine::new().unwrap().module("faulty", text) {
        Err(LoadError::NotAnActor { faults, .. }) => faults,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_fault_of_imports_and_exports_is_named_with_what_was_found_and_expected() {
    let found = faults(
        r#"(module
        (import "env" "mk_send" (func (param i32 i32) (result i32)))
        (import "env" "mk_sleep_ms" (func (param i64)))
        (import "env" "mk_teleport" (func))
        (import "env" "counter" (global i32))
        (import "env" "mk_http_get" (func (param i32 i32 i32 i32 i32 i32) (result i32)))
        (func (export "handle_message") (param i32) (result i32) i32.const 1)
        (func (export "mk_alloc") (param i64) (result i32) i32.const 0)
        (func (export "memory")))"#,
    );
    assert_eq!(
        found,
        [
            "export handle_message is (i32) -> i32, expected handle_message(i32, i64, i32, i32) -> i32",
            "export mk_alloc is (i64) -> i32, expected mk_alloc(i32) -> i32",
            "export memory is (), expected a memory",
            "import env.mk_send is (i32, i32) -> i32, expected (i64, i32, i32, i32) -> i32",
            "import env.mk_sleep_ms is (i64), expected (i32) -> i32 or (i32)",
            "import env.mk_teleport is not known",
            "import env.counter is a global: guests import functions only",
            "import env.mk_http_get: this build of Sinew has no HTTP for guests yet",
        ]
    );
}

#[test]
fn a_module_without_an_entry_is_told_what_an_actor_and_a_program_export() {
    let found = faults("(module)");
    assert_eq!(found.len(), 1);
    assert!(
        found[0].contains("handle_message(i32, i64, i32, i32) -> i32") && found[0].contains("_start"),
        "{found:?}"
    );
}

#[test]
fn what_is_not_webassembly_is_an_error_that_names_the_module() {
    let engine = Engine::new().unwrap();
    for source in [&b"hello"[..], b"", b"\0asm\x01\0\0\0\xff", b"(module"] {
        let error = engine.module("hello", source).unwrap_err();
        assert!(matches!(error, LoadError::Invalid { .. }), "{error}");
        assert!(error.to_string().starts_with("module \"hello\" is not valid WebAssembly: "), "{error}");
    }
    let error = engine.module_file("/no/such/guest.wasm").unwrap_err();
    assert!(error.to_string().starts_with("cannot read /no/such/guest.wasm: "), "{error}");
}

#[test]
fn the_default_class_follows_from_what_a_module_imports() {
    let engine = Engine::new().unwrap();
    for (name, class) in [
        ("nothing", StackClass::None),
        ("u32_echo", StackClass::None),
        ("counter_v1", StackClass::None),
        ("echo", StackClass::Small),
        ("park", StackClass::Small),
        ("state", StackClass::Small),
    ] {
        assert_eq!(module(&engine, name).default_class(), class, "{name}");
    }
}

#[test]
fn a_call_that_cannot_say_that_it_must_not_block_is_refused_without_a_stack() {
    let engine = Engine::new().unwrap();
    let module = engine.module(
        "void",
        r#"(module
        (import "env" "mk_sleep_ms" (func (param i32)))
        (func (export "handle_message") (param i32 i64 i32 i32) (result i32) i32.const 1))"#,
    );
    let module = module.unwrap();
    let node = sinew_kernel::Node::new();
    node.wasm(&module).spawn().unwrap();
    let error = node.wasm(Guest::new(&module).stack(StackClass::None)).spawn().unwrap_err();
    assert!(
        error.to_string().contains("import env.mk_sleep_ms cannot report that it must not block"),
        "{error}"
    );
}
