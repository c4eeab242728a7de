//! Selects the scopes to request.

/// Maximum number of scopes in one request.
const MAX_SCOPES: usize = 256;

/// Scope that some authorization servers require to issue a refresh token.
pub(super) const OFFLINE_ACCESS: &str = "offline_access";

/// Inputs of the scope selection.
#[derive(Debug, Default)]
pub(super) struct ScopeSelection<'a> {
    /// Configured scopes; they replace those that the server proposes.
    pub(super) configured: &'a [String],
    /// Scopes that the challenge requires.
    pub(super) challenged: &'a [String],
    /// Whether the request was rejected because the scopes of its token were insufficient.
    pub(super) step_up: bool,
    /// Scopes from the metadata of the resource.
    pub(super) resource: &'a [String],
    /// Scopes requested before, which are requested again.
    pub(super) previous: &'a [String],
    /// Scopes that the authorization server supports, if stated.
    pub(super) server: Option<&'a [String]>,
    /// Whether the authorization server issues refresh tokens.
    pub(super) supports_refresh: bool,
}

impl ScopeSelection<'_> {
    /// Returns the scopes to request. If empty, the authorization server decides.
    pub(super) fn scopes(&self) -> Vec<String> {
        let offline = self.server.map(|server| contains(server, OFFLINE_ACCESS));
        let mut scopes = union(self.previous, self.configured);
        if self.configured.is_empty() || self.step_up {
            let mut proposed = self.challenged.to_vec();
            if proposed.is_empty() {
                proposed = self.resource.to_vec();
                // The authorization server does not support `offline_access`.
                proposed.retain(|scope| scope != OFFLINE_ACCESS || offline != Some(false));
            }
            scopes = union(&scopes, &proposed);
        }
        // Requested alone, it would replace the default scopes of the server.
        if offline == Some(true) && self.supports_refresh && !scopes.is_empty() {
            scopes = union(&scopes, &[OFFLINE_ACCESS.to_owned()]);
        }
        scopes
    }
}

/// Parses a scope list; duplicates and invalid scopes are dropped.
pub(super) fn parse(text: &str) -> Vec<String> {
    let scopes: Vec<String> = text.split_ascii_whitespace().map(str::to_owned).collect();
    valid_scopes(&scopes)
}

/// Returns the valid scopes of a list, without duplicates.
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

/// Whether `have` contains every scope of `want`.
pub(super) fn covers(have: &[String], want: &[String]) -> bool {
    want.iter().all(|scope| contains(have, scope))
}

pub(super) fn contains(scopes: &[String], value: &str) -> bool {
    scopes.iter().any(|scope| scope == value)
}

/// Whether the text is a scope token (RFC 6749, section 3.3).
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
            // Each row: configured, challenged, resource and previous scopes; expected scopes at
            // first and at a step-up.
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
            // Each row: the challenged, resource and server scopes, whether refresh is supported,
            // and the requested scopes.
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
