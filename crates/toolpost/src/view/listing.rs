//! A list of tools, serialized once and sent in pages.

use std::sync::Arc;

use bytes::Bytes;
use data_encoding::BASE64URL_NOPAD;

use super::settings::ProtocolGeneration;
use super::tool::Tool;
use crate::spec::OperationId;

/// A serialized list of tools, sorted by operation id.
#[derive(Debug)]
pub struct Listing {
    /// The tools as comma-separated JSON.
    json: Bytes,
    /// The id of each tool, and the start and end of its JSON.
    tools: Vec<(OperationId, usize, usize)>,
    notes: Vec<String>,
    page_size: usize,
    generation: ProtocolGeneration,
}

/// One page of a listing.
#[derive(Debug, Clone)]
pub struct ToolPage {
    tools: Bytes,
    count: usize,
    next: Option<String>,
    generation: ProtocolGeneration,
}

/// Error returned for a malformed cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid cursor")]
pub struct CursorError;

/// How long and for which callers a client can cache a list; sent from 2026-07-28 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheHints {
    /// Cache lifetime in milliseconds.
    pub ttl_ms: u64,
    /// The callers the cached list is valid for.
    pub scope: CacheScope,
}

/// The callers a cached list is valid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheScope {
    /// Valid for all callers.
    Public,
    /// Valid only for the requesting caller.
    Private,
}

impl Listing {
    pub(super) fn new<'a>(
        tools: impl Iterator<Item = &'a Arc<Tool>>,
        generation: ProtocolGeneration,
        page: usize,
    ) -> Self {
        let (json, page) = (Bytes::new(), page.max(1));
        let mut listing =
            Self { json, tools: Vec::new(), notes: Vec::new(), page_size: page, generation };
        let mut json = Vec::new();
        for tool in tools {
            listing.add(tool, &mut json);
        }
        json.shrink_to_fit();
        listing.json = json.into();
        listing
    }

    fn add(&mut self, tool: &Tool, json: &mut Vec<u8>) {
        let described = tool.describe(self.generation);
        if !self.tools.is_empty() {
            json.push(b',');
        }
        let begin = json.len();
        serde_json::to_writer(&mut *json, &described.tool).expect("a JSON object serializes");
        self.tools.push((tool.id().clone(), begin, json.len()));
        let notes = described.notes.into_iter().map(|note| format!("{}: {note}", tool.id()));
        self.notes.extend(notes);
    }

    /// Returns the number of tools.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether the listing is empty.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Whether both listings have the same JSON.
    pub fn has_same_content(&self, other: &Self) -> bool {
        self.json == other.json
    }

    /// Returns notes on limitations of the tool descriptions, such as omitted schema keywords.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the page after the cursor, or the first page.
    ///
    /// A cursor identifies the last tool of the previous page, so it stays valid when tools change.
    ///
    /// # Errors
    ///
    /// Returns [`CursorError`] if the cursor is malformed.
    pub fn page(&self, cursor: Option<&str>) -> Result<ToolPage, CursorError> {
        let begin = match cursor {
            Some(cursor) => {
                let last = decode_cursor(cursor)?;
                self.tools.partition_point(|(id, ..)| *id <= last)
            }
            None => 0,
        };
        let entries =
            &self.tools[begin..self.tools.len().min(begin.saturating_add(self.page_size))];
        let is_last = begin + entries.len() == self.tools.len();
        let next = entries.last().filter(|_| !is_last).map(|(id, ..)| encode_cursor(id));
        let tools = match (entries.first(), entries.last()) {
            (Some((_, begin, _)), Some((.., end))) => self.json.slice(*begin..*end),
            _ => Bytes::new(),
        };
        Ok(ToolPage { tools, count: entries.len(), next, generation: self.generation })
    }
}

impl ToolPage {
    /// Returns the number of tools on the page.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether the page is empty.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the cursor of the next page; `None` on the last page.
    pub fn next_cursor(&self) -> Option<&str> {
        self.next.as_deref()
    }

    /// Appends the complete result of `tools/list`.
    pub fn write(&self, out: &mut Vec<u8>, hints: Option<CacheHints>) {
        out.reserve(self.tools.len() + 128);
        self.write_head(out);
        out.extend_from_slice(&self.tools);
        self.write_tail(out, hints);
    }

    /// Appends the JSON before the tools.
    pub fn write_head(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(match self.generation {
            ProtocolGeneration::Legacy => br#"{"tools":["#,
            ProtocolGeneration::Modern => br#"{"resultType":"complete","tools":["#,
        });
    }

    /// Returns the tools as comma-separated JSON. All responses with this page share the bytes.
    pub fn tools(&self) -> &Bytes {
        &self.tools
    }

    /// Appends the JSON after the tools.
    pub fn write_tail(&self, out: &mut Vec<u8>, hints: Option<CacheHints>) {
        out.push(b']');
        if let Some(next) = &self.next {
            out.extend_from_slice(format!(r#","nextCursor":"{next}""#).as_bytes());
        }
        if let (Some(hints), ProtocolGeneration::Modern) = (hints, self.generation) {
            let CacheHints { ttl_ms, scope } = hints;
            let scope = scope.as_str();
            out.extend_from_slice(
                format!(r#","ttlMs":{ttl_ms},"cacheScope":"{scope}""#).as_bytes(),
            );
        }
        out.push(b'}');
    }
}

impl CacheScope {
    /// Returns the name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
        }
    }
}

fn encode_cursor(last: &OperationId) -> String {
    BASE64URL_NOPAD.encode(last.as_str().as_bytes())
}

fn decode_cursor(cursor: &str) -> Result<OperationId, CursorError> {
    let bytes = BASE64URL_NOPAD.decode(cursor.as_bytes()).map_err(|_| CursorError)?;
    let text = String::from_utf8(bytes).map_err(|_| CursorError)?;
    text.parse().map_err(|_| CursorError)
}
