//! The table: a line for each client, era and transport, a column for each dialect.

use std::fmt::Write;

use toolpost::view::Dialect;

use super::{Session, Way};

/// What came of a session.
pub(super) struct Row {
    client: &'static str,
    pub(super) version: String,
    session: Session,
    pub(super) tools: usize,
    calls: usize,
    pub(super) right: usize,
    pub(super) wrong: Vec<String>,
}

impl Row {
    pub(super) fn new(client: &'static str, session: Session, calls: usize) -> Self {
        let (version, wrong) = (String::new(), Vec::new());
        Self { client, version, session, tools: 0, calls, right: 0, wrong }
    }

    pub(super) fn complain(&mut self, what: &str) {
        let Session { way, era, dialect } = self.session;
        let short: String = what.chars().take(900).collect();
        self.wrong.push(format!("{} {era:?} {way:?} {dialect}: {short}", self.client));
    }

    fn head(&self) -> String {
        let Session { way, .. } = self.session;
        let way = if way == Way::Http { "HTTP" } else { "stdio" };
        line([self.client, &self.version, self.session.protocol(), way])
    }

    fn cell(&self) -> String {
        let verdict = if self.wrong.is_empty() { "ok" } else { "WRONG" };
        format!("{} tools, {}/{} {verdict}", self.tools, self.right, self.calls)
    }
}

fn line([client, version, protocol, way]: [&str; 4]) -> String {
    format!("{client:<36}{version:<9}{protocol:<12}{way:<6}")
}

pub(super) fn table(rows: &[Row]) -> String {
    let mut table = line(["client", "version", "protocol", "over"]);
    for dialect in Dialect::ALL {
        let _ = write!(table, "{:>24}", dialect.as_str());
    }
    let mut last = String::new();
    for row in rows {
        let head = row.head();
        if head != last {
            let _ = write!(table, "\n{head}");
            last = head;
        }
        let _ = write!(table, "{:>24}", row.cell());
    }
    table.push_str(
        "\nThe Inspector is a process for each request, so it makes one call a session.\n",
    );
    table
}
