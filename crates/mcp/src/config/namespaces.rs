//! The namespaces of servers.

use execbox::core::names::{SafeNames, check_provider_name};

/// The namespaces of servers with these names: identifiers, made like those of tools, and numbered where they collide
/// (`my-server` and `my.server` become `my_server` and `my_server__2`). A name that a JavaScript global has gets the
/// suffix `_server`.
pub(super) fn namespaces<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut assigned = SafeNames::default();
    let namespace = |name: &'a str| {
        let name = if name.contains(|c: char| c.is_ascii_alphanumeric()) { name } else { "server" };
        let safe = SafeNames::default().assign(name);
        match check_provider_name(&safe) {
            Ok(()) => assigned.assign(name),
            // A suffix `_` would be trimmed by `assign`, which also uses it for reserved words.
            Err(_) => assigned.assign(&format!("{safe}_server")),
        }
    };
    names.into_iter().map(namespace).collect()
}

#[cfg(test)]
mod tests {
    use super::namespaces;

    #[test]
    fn names_become_distinct_identifiers() {
        let given = ["github", "my-server", "my.server", "Map", "日本", "delete", "2fa", "my_server__2", "github"];
        assert_eq!(
            namespaces(given),
            [
                "github",
                "my_server",
                "my_server__2",
                "Map_server",
                "server",
                "delete_",
                "_2fa",
                "my_server__2__2",
                "github__2"
            ]
        );
    }
}
