//! Schemas of one imported document: what they share stands among the components once.

use std::any::Any;
use std::collections::HashMap;

use serde_json::{Value, json};

use super::components::{
    Components, PublishedSchema, SchemaFragment, SchemaOwner, has_constraints, reference,
};
use super::name::type_name;
use crate::schema::{ComponentNames, SharedDefinition, SharedDefs, SplitRoot, SplitSchema};

/// A namespace and a document that operations in it come from.
pub(super) type ImportKey = (String, usize);

/// What is known of a document.
pub(super) struct ImportedDocument {
    cache: Box<dyn Any>,
    /// Every definition that was handed out, by its number.
    definitions: HashMap<usize, SharedDefinition>,
    /// The components that definitions became.
    names: HashMap<usize, String>,
    component_names: ComponentNames,
}

impl ImportedDocument {
    fn new(shared_defs: &dyn SharedDefs) -> Self {
        Self {
            cache: shared_defs.new_cache(),
            definitions: HashMap::new(),
            names: HashMap::new(),
            component_names: ComponentNames::default(),
        }
    }

    fn split(&mut self, shared_defs: &dyn SharedDefs) -> SplitSchema {
        let mut split = shared_defs.split(&mut *self.cache);
        let new = std::mem::take(&mut split.new_definitions);
        self.definitions.extend(new.into_iter().map(|definition| (definition.index, definition)));
        split
    }

    /// The schema itself, without its definitions.
    fn root_schema<'t>(&'t self, root: &'t SplitRoot) -> Option<&'t Value> {
        match root {
            SplitRoot::Unsplit => None,
            SplitRoot::Inline(text) => Some(text),
            SplitRoot::Definition(number) => Some(&self.definitions.get(number)?.schema),
        }
    }

    /// `None` if it is no schema that can stand in the document.
    fn fragment(&self, text: &Value) -> Option<SchemaFragment> {
        SchemaFragment::new(text, &|_, number| {
            Some(&self.definitions.get(&number.parse().ok()?)?.schema)
        })
    }
}

impl Components {
    /// Puts a schema of an imported document into the document; `None` if that has to be done whole.
    pub(super) fn publish_shared(
        &mut self,
        owner: SchemaOwner<'_>,
        shared_defs: &dyn SharedDefs,
    ) -> Option<PublishedSchema> {
        let origin = (owner.namespace.to_owned(), shared_defs.document_id());
        let known = self.imported.remove(&origin);
        let mut imported = known.unwrap_or_else(|| ImportedDocument::new(shared_defs));
        let placed = self.publish_split(&mut imported, owner, shared_defs);
        self.imported.insert(origin, imported);
        placed
    }

    fn publish_split(
        &mut self,
        imported: &mut ImportedDocument,
        owner: SchemaOwner<'_>,
        shared_defs: &dyn SharedDefs,
    ) -> Option<PublishedSchema> {
        let split = imported.split(shared_defs);
        let own = match &split.root {
            SplitRoot::Unsplit => return None,
            SplitRoot::Inline(text) => Some(imported.fragment(text)?),
            SplitRoot::Definition(_) => None,
        };
        if !has_constraints(imported.root_schema(&split.root)?) {
            return None;
        }
        self.publish_definitions(imported, owner, &split.referenced)?;
        let name = match &split.root {
            SplitRoot::Definition(number) => imported.names.get(number)?.clone(),
            _ => self.names.claim(owner.preferred_name, owner.preferred_name),
        };
        let mut described = reference(&name);
        if let Some(own) = own {
            if let Some(title) = own.original.get("title") {
                described["title"] = title.clone();
            }
            self.insert_fragment(&imported.component_names, &name, &own, json!({}));
        }
        for (number, key) in split.renamed {
            described["$defs"][key] = reference(imported.names.get(&number)?);
        }
        Some(PublishedSchema {
            reference: reference(&name),
            lossless: described,
            component: Some(name),
        })
    }

    /// `None`, and nothing is placed, if one of them cannot be.
    fn publish_definitions(
        &mut self,
        imported: &mut ImportedDocument,
        owner: SchemaOwner<'_>,
        reached: &[usize],
    ) -> Option<()> {
        let new = reached.iter().filter(|number| !imported.names.contains_key(*number));
        let parts = new.map(|number| {
            let definition = imported.definitions.get(number)?;
            Some((*number, definition.key.clone(), imported.fragment(&definition.schema)?))
        });
        let parts: Vec<(usize, Option<String>, SchemaFragment)> = parts.collect::<Option<_>>()?;
        let before = type_name(owner.namespace);
        for (number, key, _) in &parts {
            let name = match key {
                None => self.names.claim(owner.preferred_name, owner.preferred_name),
                Some(key) => {
                    let preferred_name = format!("{before}{}", type_name(key));
                    self.names.claim(&preferred_name, &format!("{before} $defs {key}"))
                }
            };
            imported
                .component_names
                .definitions
                .insert(("$defs", number.to_string()), name.clone());
            imported.names.insert(*number, name);
        }
        for (number, key, part) in &parts {
            let origin = part.definition_metadata("$defs", key.as_deref());
            self.insert_fragment(&imported.component_names, &imported.names[number], part, origin);
        }
        Some(())
    }

    /// Puts a part into the document, with what is needed to have it again to the letter.
    fn insert_fragment(
        &mut self,
        component_names: &ComponentNames,
        name: &str,
        part: &SchemaFragment,
        mut origin: Value,
    ) {
        if !part.is_exact {
            let mut original = part.original.clone();
            component_names.rewrite_refs(&mut original);
            origin["schema"] = original;
        }
        self.insert(component_names, name.to_owned(), part.published.clone(), origin);
    }
}
