//! `devtools growth`: the form of its output. No test depends on durations.

use std::process::{Command, Stdio};

use serde_json::{Value as Json, json};

/// The standard output of a command that succeeds.
fn growth(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_devtools"));
    let output = command.args(["growth", "--quick"]).args(arguments).stdin(Stdio::null()).output().unwrap();
    let [text, errors] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert_eq!(output.status.code(), Some(0), "{errors}");
    text
}

#[test]
fn growth_has_a_curve_for_each_executor_with_exponents_between_its_points() {
    let growth: Json = serde_json::from_str(&growth(&["--json"])).unwrap();
    assert_eq!((&growth["format"], &growth["quick"]), (&json!(1), &json!(true)));
    let curves = growth["curves"].as_array().unwrap();
    let of_quickjs = |curve: &&Json| curve["engine"] == "quickjs";
    let shape = |curve: &Json| {
        let points = curve["points"].as_array().unwrap();
        assert!(points[0].get("exponent").is_none() && points[1..].iter().all(|point| point["exponent"].is_number()));
        assert!(curve["worseThanLinear"].is_boolean() && curve.get("limit").is_none(), "{curve}");
        let sizes: Vec<String> = points.iter().map(|point| point["size"].to_string()).collect();
        format!("{} {} {}: {}", curve["curve"], curve["executor"], curve["unit"], sizes.join(" ")).replace('"', "")
    };
    let shapes: Vec<String> = curves.iter().filter(of_quickjs).map(shape).collect();
    insta::assert_snapshot!(shapes.join("\n"));
}

#[test]
fn growth_is_printed_as_a_table() {
    let table = growth(&["tools", "--executor", "inline"]);
    assert!(table.contains("time of 1+1 by tools granted                  inline                 1"), "{table}");
    assert!(table.contains("worse than linearly (exponent 1.15)."), "{table}");
}
