//! TypeScript declarations of a bridge, for models.

use std::fmt::Write as _;

use execbox::declarations::type_of;
use serde_json::json;

use super::Bridge;
use super::names::Names;

impl Bridge {
    /// Returns TypeScript declarations of the exports, as the module `specifier`.
    pub fn types(&self, specifier: &str) -> String {
        let mut body = String::new();
        if !self.read.is_empty() {
            body += &comment("Reads a file as text, or as bytes", &self.read);
            body += "  export function readFile(path: string, encoding?: \"utf8\"): Promise<string>;\n";
            body += "  export function readFile(path: string, encoding: \"bytes\"): Promise<Uint8Array>;\n";
        }
        if !self.write.is_empty() {
            body += &comment("Writes a file; replaces an existing one", &self.write);
            body += "  export function writeFile(path: string, data: string | ArrayBuffer | ArrayBufferView): Promise<void>;\n";
        }
        if !self.list.is_empty() {
            body += &comment("Lists files, sorted by path; at most `limit`, by default 100", &self.list);
            body += "  export function listFiles(\n    under?: string | { under?: string; after?: string; limit?: number },\n  \
                     ): Promise<{ path: string; size: number; modifiedAt: number }[]>;\n";
        }
        if !self.messages.is_empty() {
            let role = self.messages.type_text();
            let roles = if role.contains('|') { format!("({role})[]") } else { format!("{role}[]") };
            let _ = write!(
                body,
                "  /** Returns the latest messages, at most `limit`, by default 100; with `after`, the earliest after that `seq`. */\n  \
                 export function getMessages(options?: {{\n    limit?: number;\n    before?: number;\n    after?: number;\n    \
                 role?: {role} | {roles};\n  }}): Promise<{{ seq: number; role: {role}; content: unknown; createdAt: number }}[]>;\n"
            );
        }
        if !self.events.is_empty() {
            let name = self.events.type_text();
            let _ = writeln!(body, "  export function emit(name: {name}, data?: unknown): Promise<void>;");
        }
        if !self.env.is_empty() {
            let name = self.env.type_text();
            let _ = writeln!(body, "  export function getEnv(name: {name}): Promise<string | undefined>;");
        }
        for provider in &self.providers {
            for line in provider.types().lines() {
                let line = line
                    .strip_prefix("declare namespace ")
                    .map_or(line.to_owned(), |rest| format!("export namespace {rest}"));
                let _ = writeln!(body, "{}", format!("  {line}").trim_end());
            }
        }
        format!("declare module {} {{\n{body}}}\n", literals(&[specifier]))
    }
}

impl Names {
    fn type_text(&self) -> String {
        match self {
            Self::Only(names) => literals(names),
            Self::All => "string".to_owned(),
        }
    }
}

fn comment(sentence: &str, scopes: &[String]) -> String {
    if scopes.iter().any(|scope| scope == "/") {
        return format!("  /** {sentence}. */\n");
    }
    format!("  /** {sentence}. Only in {}. */\n", literals(scopes))
}

/// Formats strings as a union type, quoted so that they cannot end a comment.
fn literals<T: AsRef<str>>(texts: &[T]) -> String {
    let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    type_of(&json!({ "enum": texts }))
}
