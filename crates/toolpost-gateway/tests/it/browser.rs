//! Pages in Chromium. A script operates each page and reports failures by its exit code.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;

const CHROMIUM: &str = "/usr/bin/chromium";
/// Maximum run time of a script, sufficient for a busy machine.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(300);
/// Text that must not be rendered as elements.
pub(crate) const HOSTILE_HTML: &str =
    "<img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>";

/// Runs a script of this folder with `input`. Without a browser, it prints a warning and does
/// nothing.
pub(crate) async fn run_page_script(script: &str, mut input: Value) {
    let mut command = script_command(script);
    input["hostile"] = HOSTILE_HTML.into();
    input["chromium"] = CHROMIUM.into();
    input["packages"] = json!(cache().join("browser/package.json"));
    let ended = command.env("TOOLPOST_BROWSER", input.to_string()).output();
    let ended =
        tokio::time::timeout(SCRIPT_TIMEOUT, ended).await.expect("the script ends").unwrap();
    let (message, wrong) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    eprintln!("{message}");
    assert!(ended.status.success(), "{}\n{message}\n{wrong}", ended.status);
}

fn cache() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache")
}

/// Returns the command for a script.
fn script_command(script: &str) -> Command {
    let node = cache().join("npm/node_modules/.bin/node");
    let library = cache().join("browser/node_modules/playwright-core");
    let needed = [Path::new(CHROMIUM), &node, &library];
    let missing: Vec<_> = needed.into_iter().filter(|path| !path.exists()).collect();
    assert!(missing.is_empty(), "{missing:?} are missing: run scripts/fetch-test-data");
    let mut command = Command::new(node);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it").join(script));
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}
