//! A connection that is cut while the client sends: the client says so and exits with 2, wherever it was.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use support::processes::{Folder, Server, sordino, text};

/// Stands between client and server. After so many bytes on the way up it says goodbye to the client and is gone: what the
/// client sends from then on ends in EPIPE or in a reset.
struct Cutter {
    address: SocketAddr,
    /// Bytes that came from clients.
    sent: Arc<AtomicU64>,
}

impl Cutter {
    fn start(server: &str, cut_after: u64, with_goodbye: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, server) = (listener.local_addr().unwrap(), server.to_owned());
        let sent = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&sent);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let upstream = TcpStream::connect(&server).unwrap();
                let (mut down_from, mut down_to) =
                    (upstream.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || {
                    let _ = std::io::copy(&mut down_from, &mut down_to);
                });
                pass_up(client, upstream, &counted, cut_after, with_goodbye);
            }
        });
        Self { address, sent }
    }
}

fn pass_up(
    mut client: TcpStream,
    mut server: TcpStream,
    sent: &AtomicU64,
    cut_after: u64,
    with_goodbye: bool,
) {
    let mut bytes = [0; 16 << 10];
    loop {
        let left = cut_after - sent.load(Ordering::SeqCst).min(cut_after);
        if left == 0 {
            if with_goodbye {
                let _ = client.shutdown(Shutdown::Write);
            }
            // Ends the other direction's copy, too; what is unread makes this a reset.
            let _ = server.shutdown(Shutdown::Both);
            return;
        }
        let room = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        match client.read(&mut bytes[..room]) {
            Ok(count) if count > 0 && server.write_all(&bytes[..count]).is_ok() => {
                sent.fetch_add(count as u64, Ordering::SeqCst);
            }
            _ => {
                let _ = server.shutdown(Shutdown::Write);
                return;
            }
        }
    }
}

/// A number below a bound that looks random and is the same in every run.
fn draw(round: u64, bound: u64) -> u64 {
    u64::from_le_bytes(*blake3::hash(&round.to_le_bytes()).as_bytes().first_chunk().unwrap()) % bound
}

fn run(verb: &str, through: SocketAddr, server: &Server, folder: &Folder, prepared: &Path) -> Output {
    let mut command = sordino();
    command.arg(verb).args(["--server", &through.to_string(), "--fingerprint", &server.fingerprint]);
    command.args(["--timeout", "20"]);
    match verb {
        "classify" => command.arg(folder.path("images")),
        _ => command.args(["-n", "3", "--key-file"]).arg(folder.path("key")).arg("-o").arg(prepared),
    };
    command.output().unwrap()
}

#[test]
fn a_connection_cut_on_its_way_up_is_an_error_with_words() {
    let folder = Folder::new("cuts");
    let server = Server::start(&folder, &["--prepared-per-client", "1000"]);
    for (number, verb) in ["classify", "prepare"].into_iter().enumerate() {
        let whole = Cutter::start(&server.address, u64::MAX, false);
        let output = run(verb, whole.address, &server, &folder, &folder.path(&format!("{verb}-whole")));
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let all = whole.sent.load(Ordering::SeqCst);
        for round in 0..16 {
            // The last bytes are a goodbye that nobody waits for.
            let cut_after = 1 + draw(100 * number as u64 + round, all * 95 / 100);
            let cutter = Cutter::start(&server.address, cut_after, round % 2 == 0);
            let file = folder.path(&format!("{verb}-{round}"));
            let output = run(verb, cutter.address, &server, &folder, &file);
            let words = text(&output.stderr);
            let place = format!("{verb} cut after {cut_after} of {all} bytes: {words}");
            assert_eq!(output.status.code(), Some(2), "{place}");
            assert!(words.contains("error: ") && words.contains("because: "), "{place}");
            assert!(!words.contains("docs.rs"), "{place}");
            assert!(["hung up", "cut it", "handshake"].iter().any(|word| words.contains(word)), "{place}");
            if file.exists() {
                // What is left of a file holds at least one inference.
                assert!(
                    words.contains("1 of 3 inferences are in") || words.contains("2 of 3 inferences are in"),
                    "{place}"
                );
            }
        }
    }
}

/// Nobody reads what was learned, and the connection is cut: the cut is what counts.
#[test]
fn a_closed_stdout_does_not_hide_a_cut_connection() {
    let folder = Folder::new("cut-and-closed");
    let server = Server::start(&folder, &[]);
    let cutter = Cutter::start(&server.address, 1 << 17, true);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = sordino();
    command.args(["classify", "--json", "--server", &cutter.address.to_string()]).arg(folder.path("images"));
    let output = command.args(["--fingerprint", &server.fingerprint]).stdout(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}

/// The reader of a result may go away: that alone is no error.
#[test]
fn a_closed_stdout_is_no_error() {
    use std::process::Stdio;
    for arguments in [&["zoo"][..], &["zoo", "--json"], &["inspect", "resnet18", "--by", "layer", "--json"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output =
            sordino().args(arguments).stdout(Stdio::from(writer)).stderr(Stdio::piped()).output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{arguments:?}");
    }
}
