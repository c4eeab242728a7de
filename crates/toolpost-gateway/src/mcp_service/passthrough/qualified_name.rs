//! Conversion between the names that clients use and the names that a source uses.

/// Prefix of URIs that are qualified with their source.
pub(in crate::mcp_service) const URI_SCHEME: &str = "toolpost:";

/// How a qualified name contains the label of its source, unless the label is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameForm {
    /// `label__name`, as for tools.
    Name,
    /// `toolpost:label:uri`, for resources and templates.
    Uri,
}

impl NameForm {
    /// Returns the name that clients use.
    pub(super) fn qualify(self, label: &str, own: &str) -> String {
        match self {
            _ if label.is_empty() => own.to_owned(),
            Self::Name => format!("{label}__{own}"),
            Self::Uri => format!("{URI_SCHEME}{label}:{own}"),
        }
    }

    /// Returns the source's own name; `None` if the name does not have this label.
    pub(super) fn strip_label<'n>(self, label: &str, name: &'n str) -> Option<&'n str> {
        match self {
            _ if label.is_empty() => Some(name),
            Self::Name => name.strip_prefix(label)?.strip_prefix("__"),
            Self::Uri => name.strip_prefix(URI_SCHEME)?.strip_prefix(label)?.strip_prefix(':'),
        }
    }
}

/// Whether a URI has the text before and after the expressions of a template.
pub(super) fn matches_template(template: &str, uri: &str) -> bool {
    let (Some(begin), Some(end)) = (template.find('{'), template.rfind('}')) else {
        return template == uri;
    };
    let (head, tail) = (&template[..begin], &template[end + 1..]);
    uri.len() >= head.len() + tail.len() && uri.starts_with(head) && uri.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qualified_names_round_trip() {
        use NameForm::{Name, Uri};
        for (form, label, own, outside) in [
            (Name, "box", "greet", "box__greet"),
            (Name, "box", "Say it: größe!", "box__Say it: größe!"),
            (Name, "box", "_private", "box___private"),
            (Name, "box", "other__greet", "box__other__greet"),
            (Name, "box", "", "box__"),
            (Name, "far.box", "greet", "far.box__greet"),
            (Name, "", "greet", "greet"),
            (Uri, "box", "file:///a b?c#d", "toolpost:box:file:///a b?c#d"),
            (Uri, "box", "toolpost:other:a:b", "toolpost:box:toolpost:other:a:b"),
            (Uri, "box", "note://{name}", "toolpost:box:note://{name}"),
            (Uri, "", "toolpost:box:a:b", "toolpost:box:a:b"),
        ] {
            assert_eq!(form.qualify(label, own), outside);
            assert_eq!(form.strip_label(label, outside), Some(own), "{outside}");
        }
        for (form, label, given) in [
            (Name, "box", "boxes__greet"),
            (Name, "box", "box_greet"),
            (Name, "box", "greet"),
            (Name, "box", "Box__greet"),
            (Uri, "box", "toolpost:boxes:a:b"),
            (Uri, "box", "box:a:b"),
            (Uri, "box", "toolpost:box"),
            (Uri, "box", "a:b"),
        ] {
            assert_eq!(form.strip_label(label, given), None, "{given}");
        }
    }

    #[test]
    fn template_matches_by_prefix_and_suffix() {
        for (template, uri, expected) in [
            ("note://{name}", "note://tea", true),
            ("note://{name}", "note://", true),
            ("note://{name}", "notes://tea", false),
            ("a://{x}/b/{y}/c", "a://1/b/2/c", true),
            ("a://{x}/c", "a://1/d", false),
            ("ab{x}ba", "aba", false),
            ("{+path}", "anything:at/all", true),
            ("plain:one", "plain:one", true),
            ("plain:one", "plain:two", false),
            ("odd}{", "odd}x", false),
            ("é{x}é", "é1é", true),
        ] {
            assert_eq!(matches_template(template, uri), expected, "{template} {uri}");
        }
    }
}
