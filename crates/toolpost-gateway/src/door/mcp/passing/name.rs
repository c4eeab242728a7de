//! The names that a client uses, and those that a source uses.

/// What stands before every address that carries its source.
const SCHEME: &str = "toolpost:";

/// How a name carries the label of its source. One without a label is the source's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `label__name`, as tools have it.
    Name,
    /// `toolpost:label:address`, of a resource or of a template.
    Address,
}

impl Form {
    /// The name that a client uses.
    pub(super) fn outside(self, label: &str, own: &str) -> String {
        match self {
            _ if label.is_empty() => own.to_owned(),
            Self::Name => format!("{label}__{own}"),
            Self::Address => format!("{SCHEME}{label}:{own}"),
        }
    }

    /// The name that the source of this label uses, if a client means that source.
    pub(super) fn inside<'n>(self, label: &str, given: &'n str) -> Option<&'n str> {
        match self {
            _ if label.is_empty() => Some(given),
            Self::Name => given.strip_prefix(label)?.strip_prefix("__"),
            Self::Address => given.strip_prefix(SCHEME)?.strip_prefix(label)?.strip_prefix(':'),
        }
    }
}

/// Whether an address could be made from a template: it begins and ends as the template does.
pub(super) fn could_match(template: &str, uri: &str) -> bool {
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
    fn names_carry_their_source_and_are_read_back() {
        use Form::{Address, Name};
        for (form, label, own, outside) in [
            (Name, "box", "greet", "box__greet"),
            (Name, "box", "Say it: größe!", "box__Say it: größe!"),
            (Name, "box", "_private", "box___private"),
            (Name, "box", "other__greet", "box__other__greet"),
            (Name, "box", "", "box__"),
            (Name, "far.box", "greet", "far.box__greet"),
            (Name, "", "greet", "greet"),
            (Address, "box", "file:///a b?c#d", "toolpost:box:file:///a b?c#d"),
            (Address, "box", "toolpost:other:a:b", "toolpost:box:toolpost:other:a:b"),
            (Address, "box", "note://{name}", "toolpost:box:note://{name}"),
            (Address, "", "toolpost:box:a:b", "toolpost:box:a:b"),
        ] {
            assert_eq!(form.outside(label, own), outside);
            assert_eq!(form.inside(label, outside), Some(own), "{outside}");
        }
        for (form, label, given) in [
            (Name, "box", "boxes__greet"),
            (Name, "box", "box_greet"),
            (Name, "box", "greet"),
            (Name, "box", "Box__greet"),
            (Address, "box", "toolpost:boxes:a:b"),
            (Address, "box", "box:a:b"),
            (Address, "box", "toolpost:box"),
            (Address, "box", "a:b"),
        ] {
            assert_eq!(form.inside(label, given), None, "{given}");
        }
    }

    #[test]
    fn templates_match_by_their_ends() {
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
            assert_eq!(could_match(template, uri), expected, "{template} {uri}");
        }
    }
}
