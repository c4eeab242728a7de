//! What is asked for.

/// The most scopes that are asked for at once.
const MAX_SCOPES: usize = 256;

/// The scope that makes some authorization servers give a refresh token.
pub(super) const OFFLINE_ACCESS: &str = "offline_access";

/// What decides what is asked for.
#[derive(Debug, Default)]
pub(super) struct ScopeSelection<'a> {
    /// What the owner of this client configured, which replaces what the server proposes.
    pub(super) configured: &'a [String],
    /// What the refused request needs.
    pub(super) challenged: &'a [String],
    /// Whether a token was there and covered too little.
    pub(super) step_up: bool,
    /// What the metadata of the resource proposes.
    pub(super) resource: &'a [String],
    /// What was asked for before, so that nothing is lost.
    pub(super) previous: &'a [String],
    /// What the authorization server knows, if it says.
    pub(super) server: Option<&'a [String]>,
    /// Whether the authorization server gives refresh tokens.
    pub(super) supports_refresh: bool,
}

impl ScopeSelection<'_> {
    /// The scopes to ask for; none means that the parameter is left out, and the authorization
    /// server decides.
    pub(super) fn scopes(&self) -> Vec<String> {
        let offline = self.server.map(|server| contains(server, OFFLINE_ACCESS));
        let mut scopes = union(self.previous, self.configured);
        if self.configured.is_empty() || self.step_up {
            let mut proposed = self.challenged.to_vec();
            if proposed.is_empty() {
                proposed = self.resource.to_vec();
                // Refresh tokens are a matter of the authorization server, which does not know them.
                proposed.retain(|scope| scope != OFFLINE_ACCESS || offline != Some(false));
            }
            scopes = union(&scopes, &proposed);
        }
        // Alone it would turn "whatever is usual" into "nothing but a refresh token".
        if offline == Some(true) && self.supports_refresh && !scopes.is_empty() {
            scopes = union(&scopes, &[OFFLINE_ACCESS.to_owned()]);
        }
        scopes
    }
}

/// The scopes of a text, each once; what cannot be a scope is left out.
pub(super) fn parse(text: &str) -> Vec<String> {
    let mut scopes = Vec::new();
    for scope in text.split_ascii_whitespace().filter(|scope| is_scope(scope)) {
        if scopes.len() < MAX_SCOPES && !contains(&scopes, scope) {
            scopes.push(scope.to_owned());
        }
    }
    scopes
}

/// Those of a list, as of a text.
pub(super) fn valid_scopes(scopes: &[String]) -> Vec<String> {
    union(&[], scopes)
}

pub(super) fn union(first: &[String], second: &[String]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for scope in first.iter().chain(second).filter(|scope| is_scope(scope)) {
        if all.len() < MAX_SCOPES && !contains(&all, scope) {
            all.push(scope.clone());
        }
    }
    all
}

/// Whether everything that is wanted is there.
pub(super) fn covers(have: &[String], want: &[String]) -> bool {
    want.iter().all(|scope| contains(have, scope))
}

fn contains(scopes: &[String], value: &str) -> bool {
    scopes.iter().any(|scope| scope == value)
}

/// RFC 6749, section 3.3: visible ASCII without quotes and backslashes.
fn is_scope(text: &str) -> bool {
    let fits = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    !text.is_empty() && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select(configured: &str, challenged: &str, resource: &str, before: &str) -> [String; 2] {
        let [configured, challenged, resource, before] =
            [configured, challenged, resource, before].map(parse);
        [false, true].map(|step_up| {
            let selection = ScopeSelection {
                configured: &configured,
                challenged: &challenged,
                step_up,
                resource: &resource,
                previous: &before,
                ..ScopeSelection::default()
            };
            selection.scopes().join(" ")
        })
    }

    #[test]
    fn configured_scopes_win_then_challenge_then_metadata() {
        let rows = [
            // configured, challenged, resource, before; at first, at a step-up
            ("", "", "", "", "", ""),
            ("", "c", "r s", "", "c", "c"),
            ("", "", "r s", "", "r s", "r s"),
            ("o", "c", "r", "", "o", "o c"),
            ("", "c", "r", "b", "b c", "b c"),
            ("", "c b", "", "b", "b c", "b c"),
            ("o", "", "r", "b", "b o", "b o r"),
        ];
        for (configured, challenged, resource, before, first, step_up) in rows {
            assert_eq!(select(configured, challenged, resource, before), [first, step_up]);
        }
    }

    #[test]
    fn offline_access_is_requested_only_if_supported() {
        let rows = [
            // challenged, resource, server, refresh; asked for
            ("a", "", Some("a offline_access"), true, "a offline_access"),
            ("a", "", Some("a offline_access"), false, "a"),
            ("a", "", Some("a"), true, "a"),
            ("a", "", None, true, "a"),
            ("", "", Some("offline_access"), true, ""),
            ("", "a offline_access", Some("a"), true, "a"),
            ("", "a offline_access", None, true, "a offline_access"),
            ("a offline_access", "", Some("a"), true, "a offline_access"),
        ];
        for (challenged, resource, server, refresh, expected) in rows {
            let [challenged, resource] = [challenged, resource].map(parse);
            let server = server.map(parse);
            let selection = ScopeSelection {
                challenged: &challenged,
                resource: &resource,
                server: server.as_deref(),
                supports_refresh: refresh,
                ..ScopeSelection::default()
            };
            assert_eq!(selection.scopes().join(" "), expected);
        }
    }

    #[test]
    fn invalid_and_duplicate_scopes_are_dropped() {
        assert_eq!(parse("a \"b\" c\\d é a e").join(" "), "a e");
        let many: Vec<String> = (0..1_000).map(|number| number.to_string()).collect();
        assert_eq!(parse(&many.join(" ")).len(), MAX_SCOPES);
        assert_eq!(valid_scopes(&many).len(), MAX_SCOPES);
        assert!(covers(&parse("a b c"), &parse("c a")));
        assert!(!covers(&parse("a"), &parse("a b")));
    }
}
