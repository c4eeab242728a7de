//! The sources of a configuration, connected to the hub of a gateway.

use std::sync::Arc;

use manila::connection::SessionSettings;
use manila::hub::{SpokeRules, Upstream};
use manila::link::{ConnectError, WsConnector};
use manila::protocol::Secret;

use crate::app::Gateway;
use crate::config::{Adjustments, Config, SourceConfig, SourceKind};

/// The sources at work. Dropping it ends them.
#[derive(Debug)]
pub struct Sources {
    _hubs: Vec<Upstream>,
}

impl Sources {
    /// Expects the spokes that are named, and connects to the hubs. A source that is not there yet
    /// is waited for, and delays nobody.
    ///
    /// # Errors
    ///
    /// An address is not one.
    pub fn start(gateway: &Gateway, config: &Config) -> Result<Self, ConnectError> {
        let mut hubs = Vec::new();
        for source in &config.sources {
            hubs.extend(start(gateway, source)?);
        }
        Ok(Self { _hubs: hubs })
    }
}

fn start(gateway: &Gateway, source: &SourceConfig) -> Result<Option<Upstream>, ConnectError> {
    let mut rules = rules(&source.adjustments);
    match &source.kind {
        SourceKind::Spoke { identity } => {
            rules.owner = Some(identity.clone());
            gateway.hub().expect(&source.name, rules);
            Ok(None)
        }
        SourceKind::Hub { url, token } => {
            // Nobody but the operator connects this name; see `Upstream`.
            rules.owner = Some(String::new());
            gateway.hub().expect(&source.name, rules);
            let token = token.as_ref().map(|token| Secret::new(token.reveal()));
            let connector = WsConnector::with(url, token, gateway.0.settings.websocket)?;
            let settings = SessionSettings::default();
            Ok(Some(Upstream::start(gateway.hub(), &source.name, connector, settings)))
        }
    }
}

fn rules(adjustments: &Adjustments) -> SpokeRules {
    let mut rules = SpokeRules::default();
    rules.timeout = adjustments.timeout;
    let adjustments = adjustments.clone();
    rules.adjust = Some(Arc::new(move |spec| adjustments.apply(spec)));
    rules
}
