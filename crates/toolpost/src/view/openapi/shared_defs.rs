//! Schemas of one imported document; shared definitions become one component each.

use std::any::Any;
use std::collections::HashMap;

use serde_json::{Value, json};

use super::components::{
    Components, PublishedSchema, SchemaFragment, SchemaOwner, has_constraints, reference,
};
use super::name::type_name;
use crate::schema::{ComponentNames, SharedDefinition, SharedDefs, SplitRoot, SplitSchema};

/// A namespace and the id of the document its operations were imported from.
pub(super) type ImportKey = (String, usize);

/// State of an imported document.
pub(super) struct ImportedDocument {
    cache: Box<dyn Any>,
    /// All extracted definitions, by index.
    definitions: HashMap<usize, SharedDefinition>,
    /// Component names of the published definitions, by index.
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

    /// Returns the root schema without its definitions, if it can be separated from them.
    fn root_schema<'t>(&'t self, root: &'t SplitRoot) -> Option<&'t Value> {
        match root {
            SplitRoot::Unsplit => None,
            SplitRoot::Inline(text) => Some(text),
            SplitRoot::Definition(number) => Some(&self.definitions.get(number)?.schema),
        }
    }

    /// Creates a fragment. Returns `None` if it is not a valid schema.
    fn fragment(&self, text: &Value) -> Option<SchemaFragment> {
        SchemaFragment::new(text, &|_, number| {
            Some(&self.definitions.get(&number.parse().ok()?)?.schema)
        })
    }
}

impl Components {
    /// Adds a schema of an imported document, unless it must be a standalone schema.
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

    /// Publishes the new definitions, or none and returns `None` if one cannot be published.
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

    /// Adds a part to the document, with the original schema if they differ.
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
