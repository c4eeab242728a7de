//! The Inspector's command line. It is a process for each request, so it lists and makes one call in
//! each session; in the four sessions of a dialect there is every kind of call.

use std::path::PathBuf;
use std::process::Stdio;

use futures::stream::{self, StreamExt};
use serde_json::{Value, json};
use tokio::process::Command;
use toolpost::view::{Dialect, Era};

use super::check::Keeps;
use super::matrix::Row;
use super::world::Call;
use super::{BOTH, PATIENCE, Place, Session, Way, Who};

const WHO: Who = Who { name: "npm @modelcontextprotocol/inspector", keeps: Keeps::Outer };

/// The exit code of a call whose result says that it is an error.
const IS_ERROR: i32 = 5;

pub(super) async fn try_out(place: &Place) -> Vec<Row> {
    let kinds = kinds(&place.calls);
    let sessions = Session::all(BOTH).enumerate().map(|(number, session)| {
        let call = kinds[number / Dialect::ALL.len() % kinds.len()].clone();
        async move {
            let found = tokio::time::timeout(PATIENCE, found(place, session, &call)).await;
            let found = found.unwrap_or_else(|_| Err("it takes too long".to_owned()));
            let found = found.unwrap_or_else(|reason| json!({"failed": reason}));
            place.judge(WHO, session, &[call], &found)
        }
    });
    // Most of what it does is to start, so two of them hold up nobody.
    stream::iter(sessions).buffered(2).collect().await
}

/// A success, a failure and something that does not fit.
fn kinds(all: &[Call]) -> [Call; 3] {
    [("odd__forest", "ok"), ("odd__tree", "declared"), ("odd__tuple", "invalid")].map(|wanted| {
        let is_wanted =
            |call: &&Call| (&*call.tool, &call.arguments["how"]) == (wanted.0, &wanted.1.into());
        all.iter().find(is_wanted).unwrap().clone()
    })
}

async fn found(place: &Place, session: Session, call: &Call) -> Result<Value, String> {
    // Its own look at the schemas of a list: an error there is exit code 6.
    let listed = request(place, session, &["--method", "tools/list", "--strict"]).await?;
    let tools = listed["result"]["tools"].as_array();
    let names: Vec<_> = tools.into_iter().flatten().map(|tool| tool["name"].clone()).collect();
    let arguments = call.arguments.to_string();
    let method = ["--method", "tools/call", "--tool-name", &call.tool, "--tool-args-json"];
    let asked = request(place, session, &[&method[..], &[&arguments]].concat()).await;
    let answer = asked.unwrap_or_else(|reason| json!({"thrown": reason}));
    // It does not tell the version, but it stays in the era that it is told.
    let (version, protocol) = (version(place), session.protocol());
    Ok(json!({"version": version, "protocol": protocol, "tools": names, "answers": [answer]}))
}

async fn request(place: &Place, session: Session, what: &[&str]) -> Result<Value, String> {
    let era = if session.era == Era::Modern { "modern" } else { "legacy" };
    let mut command = Command::new(place.cache.join("npm/node_modules/.bin/node"));
    command.arg(package(place).join("clients/cli/build/index.js"));
    command.args(["--quiet", "--format", "json", "--protocol-era", era]).args(what);
    match session.way {
        Way::Http => command.args(["--transport", "http", "--server-url", &place.url(session)]),
        Way::Stdio => command.args(place.command(session)),
    };
    // It keeps what it knows about servers at home, which is not here.
    command.env("HOME", env!("CARGO_TARGET_TMPDIR"));
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
    let output = output.map_err(|error| error.to_string())?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0 | IS_ERROR) => {
            serde_json::from_slice(&output.stdout).map_err(|error| format!("{error}: {complaint}"))
        }
        _ => Err(complaint.into_owned()),
    }
}

fn package(place: &Place) -> PathBuf {
    place.cache.join("clients/node_modules/@modelcontextprotocol/inspector")
}

fn version(place: &Place) -> Value {
    let manifest = std::fs::read(package(place).join("package.json")).unwrap();
    serde_json::from_slice::<Value>(&manifest).unwrap()["version"].take()
}
