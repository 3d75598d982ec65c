use std::sync::Arc;

use super::*;

#[test]
fn a_value_is_two_words_and_so_is_an_optional_one() {
    assert_eq!(size_of::<Value>(), 16);
    assert_eq!(size_of::<Option<Value>>(), 16);
}

#[test]
fn scalars_and_large_values_come_out_as_they_went_in() {
    assert_eq!(Value::new(7u8).downcast::<u8>().unwrap(), 7);
    assert_eq!(Value::new(-1i64).downcast::<i64>().unwrap(), -1);
    assert_eq!(Value::new([1u64; 9]).downcast::<[u64; 9]>().unwrap(), [1; 9]);
    assert_eq!(Value::new(String::from("text")).downcast::<String>().unwrap(), "text");
    Value::UNIT.downcast::<()>().unwrap();
}

#[test]
fn tuples_options_and_vectors_convert_without_wrapping() {
    #[track_caller]
    fn passes<T: IntoValue + Clone + PartialEq + fmt::Debug + Send + 'static>(value: T) {
        assert_eq!(value.clone().into_value().downcast::<T>().unwrap(), value);
    }
    passes(("line", 7u32));
    passes((1u8, 'x', String::from("text")));
    passes((1u8, 2u16, 3u32, [4u64; 4]));
    passes(Some("text"));
    passes(None::<String>);
    passes(vec![(1u8, "one"), (2, "two")]);
    let wrong = Some(1u32).into_value().downcast::<u32>().unwrap_err();
    assert_eq!(wrong.to_string(), "expected a value of type u32, got core::option::Option<u32>");
}

#[test]
fn an_over_aligned_small_value_is_kept_aligned() {
    #[repr(align(64))]
    #[derive(PartialEq, Debug)]
    struct Wide(u8);
    let value = Value::new(Wide(3));
    let inside = value.downcast_ref::<Wide>().unwrap();
    assert_eq!(std::ptr::from_ref(inside).addr() % 64, 0);
    assert_eq!(*inside, Wide(3));
}

#[test]
fn each_value_is_dropped_once_inline_or_boxed_taken_or_not() {
    let count = Arc::new(());
    let inline = Value::new(count.clone());
    let boxed = Value::new((count.clone(), [0u64; 8]));
    assert_eq!(Arc::strong_count(&count), 3);
    drop(inline);
    assert_eq!(Arc::strong_count(&count), 2);
    let (out, _) = boxed.downcast::<(Arc<()>, [u64; 8])>().unwrap();
    assert_eq!(Arc::strong_count(&count), 2);
    drop(out);
    let mistaken = Value::new(count.clone()).downcast::<u8>().unwrap_err();
    assert_eq!(Arc::strong_count(&count), 2);
    drop(mistaken);
    assert_eq!(Arc::strong_count(&count), 1);
}

#[test]
fn a_value_becomes_the_result_of_a_body_that_returns_its_type_or_values() {
    assert_eq!(Value::new(7u8).into_result::<u8>().unwrap(), 7);
    assert_eq!(Value::new([1u64; 9]).into_result::<[u64; 9]>().unwrap(), [1; 9]);
    let itself = Value::new("text").into_result::<Value>().unwrap();
    assert_eq!(itself.downcast::<&str>().unwrap(), "text");
    let other = Value::new("text").into_result::<std::rc::Rc<u8>>().unwrap_err();
    assert_eq!(other.downcast::<&str>().unwrap(), "text");
}

#[test]
fn debug_shows_scalars_and_texts_and_names_other_types() {
    assert_eq!(format!("{:?}", Value::new(3u32)), "3");
    assert_eq!(format!("{:?}", Value::new("a")), "\"a\"");
    struct Opaque;
    assert!(format!("{:?}", Value::new(Opaque)).ends_with("Opaque>"));
}
