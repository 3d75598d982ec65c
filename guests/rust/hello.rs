//! An ordinary program: arguments, environment, clock, random bytes, files, exit code.
//!
//! `hello [EXIT_CODE|panic] [DIRECTORY]`
//!
//! hello.c, hello.rs and hello.go print the same lines. DIRECTORY defaults to "/".

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use std::{env, fs, io, process};

fn main() {
    let arguments: Vec<String> = env::args().collect();
    for (at, argument) in arguments.iter().enumerate() {
        println!("argument {}: {}", at, argument);
    }
    println!("SINEW_GUEST: {}", env::var("SINEW_GUEST").unwrap_or_else(|_| "not set".to_owned()));

    let wall = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
    println!("clock: {}", wall.as_millis());
    let start = Instant::now();
    println!("monotonic: {}", if Instant::now() >= start { "yes" } else { "no" });
    // The keys of a `RandomState` are the random numbers that std offers.
    println!("random: {:016x}", RandomState::new().build_hasher().finish());

    let directory = Path::new(arguments.get(2).map_or("/", String::as_str));
    match fs::read_to_string(directory.join("in.txt")) {
        Ok(text) => println!("in.txt: {}", text.trim_end_matches('\n')),
        Err(_) => println!("in.txt: failed"),
    }
    let written = fs::write(directory.join("out.txt"), "written by hello\n");
    println!("out.txt: {}", if written.is_ok() { "written" } else { "failed" });
    match names(directory) {
        Ok(names) => names.iter().for_each(|name| println!("entry: {}", name)),
        Err(_) => println!("entries: failed"),
    }

    let first = arguments.get(1).map_or("0", String::as_str);
    if first == "panic" {
        panic!("asked to");
    }
    eprintln!("hello ends");
    process::exit(first.parse().unwrap_or(0));
}

/// The names of the entries of `directory`, in order.
fn names(directory: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
