//! A schema and a value: the schema compiles or is rejected, checking ends, and a tool with it has declarations, whatever cannot be
//! read.

#![no_main]

use execbox::{Provider, Schema, Tool};
use libfuzzer_sys::fuzz_target;
use serde_json::Value as Json;

fuzz_target!(|text: &str| {
    let mut texts = text.splitn(2, '\n').map(serde_json::from_str::<Json>);
    let Some(Ok(schema)) = texts.next() else { return };
    if let Ok(compiled) = Schema::compile(&schema)
        && let Some(Ok(value)) = texts.next()
    {
        let _ = compiled.check(&value, "value");
    }
    let is_small = Schema::compile_lenient(&schema).is_ok();
    let tool = Tool::new("t", async |_, _| Ok(Json::Null)).input_schema(schema);
    let (provider, errors) = Provider::builder("p").tool(tool).build_valid().unwrap();
    assert_eq!(provider.types().contains("t("), is_small, "{} {errors:?}", provider.types());
});
