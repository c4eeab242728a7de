//! The table: a row for each client, protocol generation and transport, a column for each dialect.

use std::fmt::Write;

use toolpost::view::Dialect;

use super::{ClientRun, ClientTransport};

/// The result of a session.
pub(super) struct Row {
    client: &'static str,
    pub(super) version: String,
    session: ClientRun,
    pub(super) tools: usize,
    calls: usize,
    pub(super) passed: usize,
    pub(super) failures: Vec<String>,
}

impl Row {
    pub(super) fn new(client: &'static str, session: ClientRun, calls: usize) -> Self {
        let (version, failures) = (String::new(), Vec::new());
        Self { client, version, session, tools: 0, calls, passed: 0, failures }
    }

    pub(super) fn add_failure(&mut self, what: &str) {
        let ClientRun { transport: client_transport, generation: protocol_generation, dialect } =
            self.session;
        let short: String = what.chars().take(900).collect();
        self.failures.push(format!(
            "{} {protocol_generation:?} {client_transport:?} {dialect}: {short}",
            self.client
        ));
    }

    fn head(&self) -> String {
        let ClientRun { transport: client_transport, .. } = self.session;
        let client_transport =
            if client_transport == ClientTransport::Http { "HTTP" } else { "stdio" };
        table_line([self.client, &self.version, self.session.protocol(), client_transport])
    }

    fn cell(&self) -> String {
        let verdict = if self.failures.is_empty() { "ok" } else { "WRONG" };
        format!("{} tools, {}/{} {verdict}", self.tools, self.passed, self.calls)
    }
}

fn table_line([client, version, protocol, transport]: [&str; 4]) -> String {
    format!("{client:<36}{version:<9}{protocol:<12}{transport:<6}")
}

pub(super) fn table(rows: &[Row]) -> String {
    let mut table = table_line(["client", "version", "protocol", "over"]);
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
