//! Each catalog in `tests/declarations` produces the declarations next to it.
//!
//! `NAME.json` is a catalog as an MCP server could send it, `NAME.d.ts` the declarations for guest code. After an
//! intended change, `UPDATE=1 cargo test -p execbox --test declarations` rewrites them; read the difference.

use std::path::Path;
use std::{env, fs};

use execbox::declarations::{ToolSignature, namespace, signature, type_of};
use serde_json::{Value, json};

#[test]
fn catalogs_produce_the_expected_declarations() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/declarations");
    let mut cases: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    cases.sort();
    let wrong: Vec<String> = cases.iter().filter_map(|case| difference(case)).collect();
    assert!(cases.len() >= 35, "only {} cases were found in {}", cases.len(), folder.display());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn difference(case: &Path) -> Option<String> {
    let catalog: Value = serde_json::from_str(&fs::read_to_string(case).unwrap()).unwrap();
    let expected_path = case.with_extension("d.ts");
    let actual = declarations(&catalog);
    if env::var_os("UPDATE").is_some() {
        fs::write(&expected_path, &actual).unwrap();
    }
    let expected = fs::read_to_string(&expected_path).unwrap_or_default();
    (actual != expected).then(|| format!("{}:\n--- expected\n{expected}--- actual\n{actual}", case.display()))
}

fn declarations(catalog: &Value) -> String {
    let name = catalog["name"].as_str().unwrap();
    let tools: Vec<_> = catalog["tools"].as_array().unwrap().iter().map(tool).collect();
    namespace(name, catalog["description"].as_str(), &tools) + "\n"
}

fn tool(tool: &Value) -> ToolSignature<'_> {
    ToolSignature::new(tool["name"].as_str().unwrap())
        .description(tool["description"].as_str())
        .input(tool.get("input"))
        .output(tool.get("output"))
}

#[test]
fn a_signature_includes_its_types() {
    let input = json!({ "type": "object", "properties": { "q": { "type": "string" } }, "required": ["q"] });
    let output =
        json!({ "$ref": "#/$defs/Hit", "$defs": { "Hit": { "properties": { "url": { "type": "string" } } } } });
    let tool = ToolSignature::new("search").description("Finds.").input(&input).output(&output);
    let expected = "/** Finds. */\nfunction search(input: { q: string }): Promise<Hit>;\ntype Hit = { url?: string };";
    assert_eq!(signature(&tool), expected);
}

#[test]
fn type_of_returns_one_expression() {
    assert_eq!(type_of(&json!({ "type": ["array", "null"], "items": { "enum": ["a", 1] } })), "(\"a\" | 1)[] | null");
    assert_eq!(type_of(&json!(true)), "unknown");
    assert_eq!(type_of(&json!(false)), "never");
    assert_eq!(type_of(&json!(7)), "unknown");
}
