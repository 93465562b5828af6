//! The namespaces of servers.

use execbox_core::names::{check_provider_name, distinct, safe_name};

/// The namespaces of servers with these names: identifiers, made like those of tools, and numbered where they collide
/// (`my-server` and `my.server` become `my_server` and `my_server__2`). A name that a JavaScript global has gets the
/// suffix `_server`.
pub(super) fn namespaces<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    distinct(&names.into_iter().collect::<Vec<_>>(), |name| {
        let safe = safe_name(if name.contains(char::is_alphanumeric) { name } else { "server" });
        match check_provider_name(&safe) {
            Ok(()) => safe,
            Err(_) => safe + "_server",
        }
    })
}

#[cfg(test)]
mod tests {
    use super::namespaces;

    #[test]
    fn names_become_distinct_identifiers() {
        let given =
            ["github", "my-server", "my.server", "Map", "天気", "📅", "delete", "2fa", "my_server__2", "github"];
        assert_eq!(
            namespaces(given),
            [
                "github",
                "my_server",
                "my_server__3",
                "Map_server",
                "天気",
                "server",
                "delete_",
                "_2fa",
                "my_server__2",
                "github__2"
            ]
        );
    }
}
