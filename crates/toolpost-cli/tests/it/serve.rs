//! `serve`: prints its operations and address, and stops on a signal.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use super::process::{OutputLines, Process, TIMEOUT, output_of, wait_until};
use super::{TempFolder, command, data_home, json as parsed, stderr, toolpost};

#[test]
fn serve_prints_banner_responds_and_stops_on_sigterm() {
    let mut command = command(&["serve", "--listen", "127.0.0.1:0"]);
    let (mut process, address, mut lines) = Process::serve(command.stderr(Stdio::piped()));
    let log = OutputLines::of(process.stderr.take().unwrap());
    let banner: Vec<String> = lines.by_ref().take_while(|line| !line.contains("curl")).collect();
    assert!(banner.iter().any(|line| line.contains("demo.clock")), "{banner:?}");
    let message = |text: &str| banner.iter().any(|line| line.contains(text));
    for text in ["without a token", "GET  /ready", "GET  /metrics", "/toolpost/operator.token"] {
        assert!(message(text), "{text}: {banner:?}");
    }
    assert!(!message("tpt_"), "{banner:?}");
    let counted = banner.iter().find_map(|line| line.split_once(" operations without a token; "));
    let (open, others) = counted.expect("the banner counts the open operations");
    let listed = parsed(&toolpost(&["list", "--url", &format!("ws://{address}")]));
    let listed = listed.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap());
    let listed: Vec<&str> = listed.filter(|id| message(&format!("  {id} "))).collect();
    assert_eq!(listed.len().to_string(), open, "the counted operations are listed: {banner:?}");
    let others: usize = others.split_once(' ').unwrap().0.parse().unwrap();
    assert!(others > 5 && !message("gateway.reload"), "{banner:?}");

    let response = request(&address, "/api/demo/add", r#"{"a":2,"b":3}"#);
    assert!(response.starts_with("HTTP/1.1 200 OK"), "{response}");
    assert!(response.contains(r#"{"sum":5}"#), "{response}");
    let stream = request(&address, "/api/demo/clock", r#"{"count":2,"everyMs":1}"#);
    assert!(stream.contains("event: complete"), "{stream}");

    process.signal("-TERM");
    let log: Vec<String> = log.collect();
    assert!(log.iter().any(|line| line.contains("drained")), "{log:?}");
    assert_eq!(process.exit_status().code(), Some(0));
}

#[test]
fn serve_rejects_invalid_listen_address() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (arguments, code, message) in [
        (&["0.0.0.0:0"][..], 2, "without authentication"),
        (&["0.0.0.0:0", "--check"], 2, "without authentication"),
        (&["7411"], 2, "such as 127.0.0.1:7411"),
        (&["localhost:x"], 2, "or localhost:7411"),
        (
            &["localhost:0", "--check", "--config", "none.toml"],
            2,
            "none.toml: cannot read the file",
        ),
        (&["127.0.0.1:0", "--data", "/dev/null/x"], 2, "/dev/null/x"),
        (&[address.as_str()], 2, "choose another address with --listen"),
    ] {
        let output = toolpost(&[&["serve", "--listen"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(stderr(&output).contains(message), "{}", stderr(&output));
        let text = stderr(&output);
        let system = "Not a directory";
        assert!(text.matches(system).count() <= 1, "no line is repeated: {text}");
    }
}

/// The full pipe blocks startup at the banner.
#[cfg(target_os = "linux")]
#[test]
fn sighup_during_startup_is_ignored() {
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&[b' '; 64 * 1024]).unwrap();
    let mut child = command(&["serve", "--listen", "127.0.0.1:0"])
        .stdout(writer)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (hangup, terminate) = (1_u64, 1_u64 << 14);
    let caught = loop {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        let caught = u64::from_str_radix(caught.trim(), 16).unwrap();
        if caught & terminate != 0 {
            break caught;
        }
        std::thread::yield_now();
    };
    assert_ne!(caught & hangup, 0, "SIGHUP is handled as soon as SIGTERM is");
    let signal = |name: &str| Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(signal("-HUP").unwrap().success());
    let mut banner = [0; 128 * 1024];
    while !String::from_utf8_lossy(&banner).contains("curl") {
        let read = reader.read(&mut banner).unwrap();
        assert_ne!(read, 0, "the log continues");
    }
    assert!(signal("-TERM").unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// A gateway without identities accepts calls without a token and with the operator's token, and
/// rejects any other token.
#[test]
fn first_start_creates_operator_token() {
    let folder = TempFolder::new("operator");
    let data = folder.path().join("kept");
    let start = || {
        let serve = ["serve", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()];
        Process::serve(command(&serve).stderr(Stdio::null()))
    };
    let (process, address, _) = start();
    let token = folder.read("kept/operator.token");
    assert!(token.starts_with("tpt_") && token.len() == 48, "a token and a line feed");
    for (token, status) in [("", "200"), (token.trim(), "200"), ("tpt_another", "401")] {
        let header = format!("Authorization: Bearer {token}\r\n");
        let header = if token.is_empty() { "" } else { &header };
        let response = request_with(&address, "/api/demo/add", header, r#"{"a":2,"b":3}"#);
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{response}");
    }
    drop(process);
    let _process = start();
    assert_eq!(folder.read("kept/operator.token"), token, "the token is unchanged");
}

/// Each row: the initial soft and hard open-file limits, the resulting limit and whether a warning
/// is logged.
#[cfg(target_os = "linux")]
#[test]
fn serve_raises_open_file_limit() {
    for (soft, hard, expected, complains) in
        [(256, 4096, 3200, false), (256, 2000, 2000, true), (4096, 4096, 4096, false)]
    {
        let start = format!("ulimit -Sn {soft} && ulimit -Hn {hard} && exec \"$0\" \"$@\"");
        let mut child = Command::new("sh")
            .args([
                "-c",
                &start,
                env!("CARGO_BIN_EXE_toolpost"),
                "serve",
                "--listen",
                "127.0.0.1:0",
            ])
            .env("XDG_DATA_HOME", data_home())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        OutputLines::of(child.stdout.take().unwrap()).next().unwrap();
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
        let open = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
        let current: u32 = open.split_whitespace().next().unwrap().parse().unwrap();
        child.kill().unwrap();
        assert_eq!(current, expected, "{soft} of {hard}");
        let message = stderr(&output_of(child));
        assert_eq!(
            message.contains("open file limit is too low"),
            complains,
            "{soft} of {hard}: {message}"
        );
    }
}

fn request(address: &str, path: &str, body: &str) -> String {
    request_with(address, path, "", body)
}

fn request_with(address: &str, path: &str, header: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{header}\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

/// Idle connections must not use up the file descriptors. Without a free one, no connection could be
/// accepted.
#[cfg(target_os = "linux")]
#[test]
fn idle_connections_leave_file_descriptors_free() {
    let folder = TempFolder::new("descriptors");
    // Idle connections stay open for the duration of the test.
    folder.write("toolpost.toml", "[limits]\nheader_timeout = \"10m\"\n");
    let mut shell = Command::new("sh");
    let script = "ulimit -n 96; exec \"$0\" serve --listen 127.0.0.1:0 --data data";
    shell.args(["-c", script, env!("CARGO_BIN_EXE_toolpost")]).env_remove("TOOLPOST_LOG");
    let (_process, address, _) =
        Process::serve(shell.current_dir(folder.path()).stderr(Stdio::null()));
    let idle: Vec<_> = (0..200).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    drop(idle);
}

/// In a container without an init process, the gateway is process 1 and inherits orphans.
#[cfg(target_os = "linux")]
#[test]
fn orphans_are_reaped_as_process_1() {
    // Without root, a process namespace needs a user namespace.
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let user: &[&str] = if is_root { &[] } else { &["--user", "--map-root-user"] };
    let folder = TempFolder::new("orphans");
    let script = "true & (sh -c ': > ended' &); \
                  exec \"$0\" serve --listen 127.0.0.1:0 --data data";
    let mut command = Command::new("unshare");
    command.args(user).args(["--pid", "--fork", "--mount-proc"]);
    command.args(["--kill-child", "sh", "-c", script]);
    command.arg(env!("CARGO_BIN_EXE_toolpost")).env_remove("TOOLPOST_LOG");
    let (process, _, _) = Process::serve(command.current_dir(folder.path()).stderr(Stdio::null()));
    let gateway = children(process.id())[0].0;
    wait_until("the orphan ends", || folder.path().join("ended").exists());
    wait_until("orphans are reaped", || children(gateway).iter().all(|(_, state)| state != "Z"));
}

/// Returns the ids and states of the children of a process.
#[cfg(target_os = "linux")]
fn children(parent: u32) -> Vec<(u32, String)> {
    let stats = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("stat")).ok());
    let found = stats.filter_map(|stat| {
        let id = stat.split(' ').next()?.parse().ok()?;
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let state = fields.next()?.to_owned();
        (fields.next()?.parse() == Ok(parent)).then_some((id, state))
    });
    found.collect()
}
