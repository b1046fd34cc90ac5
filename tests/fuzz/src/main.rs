//! The program behind `cargo xtask fuzz`, which builds it with libFuzzer: `ALDIS_FUZZ_TARGET`
//! names the target. Built as usual, it tries files: `aldis-fuzz TARGET FILE...`. Either tells the
//! targets if it is given none.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(
    init: if std::env::var_os("ALDIS_FUZZ_TARGET").is_none() {
        tell_targets();
        std::process::exit(0);
    },
    |bytes: &[u8]| {
        static TARGET: std::sync::LazyLock<&aldis_fuzz::Target> = std::sync::LazyLock::new(|| {
            let name = std::env::var("ALDIS_FUZZ_TARGET").expect("ALDIS_FUZZ_TARGET names a target");
            aldis_fuzz::target(&name).expect("`cargo xtask fuzz --list` tells the targets")
        });
        (TARGET.run)(bytes);
    }
);

/// Prints the targets, a line each.
fn tell_targets() {
    for target in aldis_fuzz::TARGETS {
        println!("{:12} {}", target.name, target.about);
    }
}

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    use std::process::ExitCode;

    let mut arguments = std::env::args_os().skip(1);
    let Some(name) = arguments.next() else {
        tell_targets();
        return ExitCode::SUCCESS;
    };
    let Some(target) = aldis_fuzz::target(&name.to_string_lossy()) else {
        eprintln!("aldis-fuzz TARGET FILE...; without arguments the targets are told");
        return ExitCode::from(2);
    };
    for file in arguments {
        match std::fs::read(&file) {
            Ok(bytes) => (target.run)(&bytes),
            Err(error) => {
                eprintln!("{}: {error}", file.display());
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
