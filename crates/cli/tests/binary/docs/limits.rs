//! The table of limits, its page, the names in the protocol and the options agree.

use std::process::Command;

use execbox::Limits;
use execbox_core::program::{Amount, Limit, Unit, Wire};

use super::page::Page;

/// A default in the notation of the page.
fn default_text(limit: &Limit) -> String {
    match limit.get(&Limits::default()) {
        _ if limit.field == "host_memory_bytes" => "that of `--memory`".to_owned(),
        None => "none".to_owned(),
        Some(Amount::Time(time)) => format!("{} s", time.as_secs()),
        Some(Amount::Count(bytes)) if limit.unit == Unit::Size => format!("{} MiB", bytes >> 20),
        Some(Amount::Count(count)) if count >= 10_000 => format!("{} {:03}", count / 1000, count % 1000),
        Some(Amount::Count(count)) => count.to_string(),
    }
}

#[test]
fn each_limit_is_on_its_page_with_its_option_and_default() {
    let page = Page::read("docs/limits.md");
    let rows = page.table("limit").columns(["`Limits`", "option", "default"]).unwrap();
    assert_eq!(rows.len(), Limits::TABLE.len(), "{rows:#?}");
    for limit in Limits::TABLE {
        let name = format!("`{}`", limit.field);
        let [_, option, stated] =
            *rows.iter().find(|[field, ..]| *field == name).unwrap_or_else(|| panic!("no row for {name}"));
        assert!(option.starts_with(&format!("`--{}`", limit.option)), "{name}: {option}");
        let default = default_text(limit);
        assert!(
            stated == default || stated.starts_with(&format!("{default}; ")),
            "{name}: {stated} instead of {default}"
        );
    }
}

#[test]
fn each_limit_has_its_option() {
    for command in ["run", "run-code", "mcp"] {
        let help = Command::new(env!("CARGO_BIN_EXE_execbox")).args([command, "--help"]).output().unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        for limit in Limits::TABLE {
            // `run-code` measures a captured console in bytes.
            let option =
                if command == "run-code" { limit.option.replace("-chars", "-bytes") } else { limit.option.into() };
            assert!(help.contains(&format!("--{option} <")), "{command} has no --{option}");
        }
    }
}

#[test]
fn each_limit_beyond_the_specification_is_described() {
    let page = Page::read("crates/cli/conformance/README.md");
    for limit in Limits::TABLE {
        // The other names are in the specification.
        if let Wire::IfSet(name) = limit.wire {
            assert!(page.code.iter().any(|code| code == name), "{name} is not described");
        }
    }
}
