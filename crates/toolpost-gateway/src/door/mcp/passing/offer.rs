//! Which sources offer what, as the caller sees it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use toolpost::mcp::method_of;
use toolpost::{Authority, CallError, Catalog, Operation};

use super::name::Form;
use super::object::Scope;

/// What one server offers beside its tools.
#[derive(Debug)]
pub(super) struct Offer {
    /// What the names of its prompts and resources carry; empty where they carry nothing.
    pub(super) label: String,
    methods: Vec<(&'static str, Arc<Operation>)>,
}

impl Offer {
    pub(super) fn has(&self, method: &str) -> bool {
        self.operation(method).is_some()
    }

    pub(super) fn operation(&self, method: &str) -> Option<&Arc<Operation>> {
        self.methods.iter().find(|(name, _)| *name == method).map(|(_, operation)| operation)
    }

    /// What a client is told about a source that could not be asked.
    pub(super) fn missing(&self, error: &CallError) -> Value {
        json!({"source": self.label, "reason": error.to_string()})
    }

    /// For whom an answer may be kept. What not everybody may ask for is for nobody else, whatever
    /// its server says about it.
    pub(super) fn scope(&self, method: &str) -> Scope {
        let control = self.operation(method).map(|operation| &operation.spec().access_control);
        match control {
            Some(control) if control.is_open() => Scope::AsSaid,
            _ => Scope::Private,
        }
    }
}

/// What the caller may call, by label. With a source there is only that, and what lies behind it if it
/// is another hub.
pub(super) fn offers(catalog: &Catalog, caller: &Authority, source: Option<&str>) -> Vec<Offer> {
    let mut offers = BTreeMap::<&str, Offer>::new();
    for operation in catalog.list() {
        let spec = operation.spec();
        let Some(method) = method_of(spec) else { continue };
        let Some(label) = label(operation.id().as_str(), method, source) else { continue };
        let identity = caller.identity().map(|identity| &**identity);
        if caller.is_trusted() || spec.access_control.admits(identity) {
            let new = || Offer { label: label.to_owned(), methods: Vec::new() };
            let offer = offers.entry(label).or_insert_with(new);
            offer.methods.push((method, Arc::clone(operation)));
        }
    }
    offers.into_values().collect()
}

/// The names before the method: of the source, and of the hubs on the way to it. Of these the source
/// that was asked for is left out.
fn label<'i>(id: &'i str, method: &str, source: Option<&str>) -> Option<&'i str> {
    let path = id.strip_suffix(method)?.strip_suffix('.')?;
    match source {
        None => Some(path),
        Some(source) => match path.strip_prefix(source)? {
            "" => Some(""),
            behind => behind.strip_prefix('.'),
        },
    }
}

/// Whom a name means, and the name that is used there: the longest label that fits, since one may
/// begin as another does.
pub(super) fn route<'o, 'n>(
    offers: impl Iterator<Item = &'o Offer>,
    form: Form,
    given: &'n str,
) -> Option<(&'o Offer, &'n str)> {
    let fits = offers.filter_map(|offer| Some((offer, form.inside(&offer.label, given)?)));
    fits.max_by_key(|(offer, _)| offer.label.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_what_stands_before_the_method() {
        for (id, source, expected) in [
            ("box.prompts/get", None, Some("box")),
            ("far.box.prompts/get", None, Some("far.box")),
            ("box.prompts/get", Some("box"), Some("")),
            ("far.box.prompts/get", Some("far"), Some("box")),
            ("far.box.prompts/get", Some("far.box"), Some("")),
            ("boxes.prompts/get", Some("box"), None),
            ("far.box.prompts/get", Some("box"), None),
            ("box.prompts/list", None, None),
        ] {
            assert_eq!(label(id, "prompts/get", source), expected, "{id} {source:?}");
        }
    }

    #[test]
    fn a_name_means_the_longest_label_that_fits() {
        let offer = |label: &str| Offer { label: label.to_owned(), methods: Vec::new() };
        let offers = ["a", "a-b", "far.b", "far.b__c"].map(offer);
        for (given, expected) in [
            ("a__p", Some(("a", "p"))),
            ("a-b__p", Some(("a-b", "p"))),
            ("far.b__p", Some(("far.b", "p"))),
            ("far.b__c__p", Some(("far.b__c", "p"))),
            ("far.b__c_p", Some(("far.b", "c_p"))),
            ("b__p", None),
            ("p", None),
        ] {
            let found = route(offers.iter(), Form::Name, given);
            assert_eq!(found.map(|(offer, own)| (&*offer.label, own)), expected, "{given}");
        }
        let own = [offer("")];
        let found = route(own.iter(), Form::Address, "toolpost:a:b:c");
        assert_eq!(found.map(|(_, own)| own), Some("toolpost:a:b:c"));
    }
}
