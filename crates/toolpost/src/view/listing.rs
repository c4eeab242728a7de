//! A list of tools, written once and sent in pages.

use std::sync::Arc;

use bytes::Bytes;
use data_encoding::BASE64URL_NOPAD;

use super::settings::ProtocolGeneration;
use super::tool::Tool;
use crate::spec::OperationId;

/// Tools in the order of their ids, as the bytes that go out.
#[derive(Debug)]
pub struct Listing {
    /// The tools, with commas between them.
    json: Bytes,
    /// The id of each tool, and where its JSON begins and ends.
    tools: Vec<(OperationId, usize, usize)>,
    notes: Vec<String>,
    page_size: usize,
    generation: ProtocolGeneration,
}

/// A part of a listing.
#[derive(Debug, Clone)]
pub struct ToolPage {
    tools: Bytes,
    count: usize,
    next: Option<String>,
    generation: ProtocolGeneration,
}

/// A cursor that no page of ours ended with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid cursor")]
pub struct CursorError;

/// How long, and for whom, a client may keep a list; said from 2026-07-28 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheHints {
    /// For how many milliseconds.
    pub ttl_ms: u64,
    /// For whom.
    pub scope: CacheScope,
}

/// For whom a list may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheScope {
    /// For everybody: all callers see the same.
    Public,
    /// For the caller who asked.
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
        serde_json::to_writer(&mut *json, &described.tool).expect("a map is JSON");
        self.tools.push((tool.id().clone(), begin, json.len()));
        let notes = described.notes.into_iter().map(|note| format!("{}: {note}", tool.id()));
        self.notes.extend(notes);
    }

    /// How many tools it has.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Whether a client that has read one has read the other: what goes out is the same.
    pub fn has_same_content(&self, other: &Self) -> bool {
        self.json == other.json
    }

    /// What could not be said about some of the tools.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The page behind a cursor, or the first.
    ///
    /// A cursor says behind which tool it stands, so that it holds when tools come and go.
    ///
    /// # Errors
    ///
    /// The cursor is none of ours.
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
    /// How many tools it has.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Asks for the next page; absent on the last.
    pub fn next_cursor(&self) -> Option<&str> {
        self.next.as_deref()
    }

    /// Appends the result of `tools/list`.
    pub fn write(&self, out: &mut Vec<u8>, hints: Option<CacheHints>) {
        out.reserve(self.tools.len() + 128);
        self.write_head(out);
        out.extend_from_slice(&self.tools);
        self.write_tail(out, hints);
    }

    /// Appends what stands before the tools.
    pub fn write_head(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(match self.generation {
            ProtocolGeneration::Legacy => br#"{"tools":["#,
            ProtocolGeneration::Modern => br#"{"resultType":"complete","tools":["#,
        });
    }

    /// The tools with commas between them, shared with everybody who is sent this page.
    pub fn tools(&self) -> &Bytes {
        &self.tools
    }

    /// Appends what stands behind the tools.
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
    /// The name on the wire.
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
