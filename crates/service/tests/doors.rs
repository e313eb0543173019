//! Every way in which a client can stand before the wrong or a closed door: each a sentence that says what to do.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use client::{ClientError, ConnectOptions, PrivateClient};
use inference::InferenceError;
use inference::connection::frame::{FrameKind, HEADER_BYTES, Header, MAGIC};
use inference::connection::{
    CertifiedKey, Fingerprint, Identity, Role, TlsAcceptor, TlsError, Trust, accept_tls,
};
use inference::plan::Reveal;
use network::digest::Digest;
use network::image::Image;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    date_time_ymd,
};

use support::{Running, classify_rightly, limits, tiny_model};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate for a name, valid until the end of a year.
fn signed(authority: &Authority, name: &str, year: i32) -> CertifiedKey {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    (params.not_before, params.not_after) = (date_time_ymd(2000, 1, 1), date_time_ymd(year, 12, 31));
    let certificate = params.signed_by(&key, authority).unwrap();
    CertifiedKey::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap()
}

fn start(own: CertifiedKey, client_authority: Option<&Authority>) -> Running {
    let fingerprint = own.fingerprint();
    let pem = client_authority.map(|authority| authority.pem());
    let acceptor = TlsAcceptor::new(own, pem.as_deref().map(str::as_bytes)).unwrap();
    let model = tiny_model(1);
    Running::start_secured(&[("tiny", &model)], limits(), Reveal::Logits, None, acceptor, fingerprint)
}

fn connect(server: &Running, options: ConnectOptions) -> Result<PrivateClient, ClientError> {
    PrivateClient::connect(&format!("localhost:{}", server.address.port()), options)
}

fn vouched_by(authority: &Authority) -> ConnectOptions {
    ConnectOptions::new(Trust::Authorities(authority.pem().into_bytes()))
}

/// The error, with a sentence that has all of these words.
fn refused(result: Result<PrivateClient, ClientError>, words: &[&str]) -> ClientError {
    let error = result.err().unwrap();
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
    error
}

#[test]
fn a_server_that_an_authority_vouches_for_is_believed() {
    let authority = authority();
    let server = start(signed(&authority, "localhost", 2100), None);
    let mut client = connect(&server, vouched_by(&authority)).unwrap();
    let model = tiny_model(1);
    classify_rightly(&mut client, &model, &Image::random(model.outline().input, 1));
}

#[test]
fn another_fingerprint_and_nothing_of_the_protocol_has_crossed() {
    let server = Running::start(&[("tiny", &tiny_model(1))], limits());
    let options = ConnectOptions::new(Trust::Fingerprint(Fingerprint([1; 32])));
    let came = server.fingerprint.to_string();
    refused(connect(&server, options), &["fingerprint", &came, &"01".repeat(32), "ask the operator"]);
    assert_eq!(PrivateClient::fingerprint_of(&server.address.to_string()).unwrap(), server.fingerprint);
    server.wait_until(|service| service.metrics().failures.get() == 2);
    assert_eq!(server.service.metrics().sessions.get(), 0);
}

#[test]
fn a_server_says_nothing_before_the_handshake_is_done() {
    let server = Running::start(&[("tiny", &tiny_model(1))], limits());
    let mut socket = TcpStream::connect(server.address).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(socket.read(&mut [0; 1]).is_err(), "silence");
    // Our own words, without TLS around them, get an alert and the end.
    socket.write_all(&MAGIC.repeat(20)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    assert!(answer.len() < 16, "an alert has seven bytes: {answer:?}");
    assert_eq!(server.service.metrics().sessions.get(), 0);
}

#[test]
fn expired_untrusted_and_misnamed_certificates() {
    let ours = authority();
    let expired = start(signed(&ours, "localhost", 2020), None);
    let error = refused(connect(&expired, vouched_by(&ours)), &["expired", "renew"]);
    assert!(matches!(error, ClientError::Tls(TlsError::Expired)));
    let good = start(signed(&ours, "localhost", 2100), None);
    refused(connect(&good, vouched_by(&authority())), &["no trusted authority", "--ca", "--fingerprint"]);
    let misnamed = start(signed(&ours, "elsewhere.example", 2100), None);
    refused(connect(&misnamed, vouched_by(&ours)), &["another name"]);
}

#[test]
fn a_client_without_or_with_a_wrong_certificate() {
    let (ours, clients) = (authority(), authority());
    let server = start(signed(&ours, "localhost", 2100), Some(&clients));
    let with = |certificate| ConnectOptions { certificate, ..vouched_by(&ours) };
    refused(connect(&server, with(None)), &["client certificate", "--client-cert"]);
    let strange = signed(&authority(), "someone", 2100);
    refused(connect(&server, with(Some(strange))), &["does not accept", "certificate"]);
    let old = signed(&clients, "someone", 2020);
    refused(connect(&server, with(Some(old))), &["does not accept", "certificate"]);
    assert_eq!(server.service.metrics().sessions.get(), 0);
    connect(&server, with(Some(signed(&clients, "someone", 2100)))).unwrap().finish().unwrap();
}

/// A TLS server that answers the first frame with these bytes.
fn answering(bytes: Vec<u8>) -> (String, ConnectOptions) {
    let identity = Identity::generate().unwrap();
    let options = ConnectOptions::new(Trust::Fingerprint(identity.fingerprint()));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let (mut stream, _) = accept_tls(listener.accept().unwrap().0, &identity).unwrap();
        stream.read_exact(&mut [0; HEADER_BYTES]).unwrap();
        stream.write_all(&bytes).unwrap();
        stream.flush().unwrap();
        let _ = stream.read(&mut [0; 1]);
    });
    (address, options)
}

#[test]
fn an_old_version_and_another_service() {
    let (session, sender, kind) = (MAGIC, Role::Server, FrameKind::SetUp);
    let header = Header { session, inference: [0; 8], step: 0, sender, kind, version: 1, length: 40 };
    let (address, options) = answering(header.to_bytes().to_vec());
    refused(PrivateClient::connect(&address, options), &["protocol version 1", "same release"]);
    let (address, options) = answering(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_vec());
    refused(PrivateClient::connect(&address, options), &["does not speak Sordino", "port"]);
}

#[test]
fn a_port_where_something_else_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let mut socket = listener.accept().unwrap().0;
        socket.write_all(b"220 mail.example ESMTP\r\n").unwrap();
        let _ = socket.read(&mut [0; 1000]);
    });
    let options = ConnectOptions::new(Trust::Fingerprint(Fingerprint([1; 32])));
    refused(
        PrivateClient::connect(&address, options),
        &["TLS handshake", "is the address that of a Sordino server"],
    );
}

#[test]
fn another_model_than_the_one_known_from_before() {
    let server = Running::start(&[("tiny", &tiny_model(1))], limits());
    let mut options = server.options();
    options.wishes.commitment = Some(Digest([9; 32]));
    let error = refused(
        connect(&server, options),
        &["commitment to the weights", &"09".repeat(32), "ask the operator"],
    );
    assert!(matches!(error, ClientError::Inference(InferenceError::OtherModel { .. })));
    let mut options = server.options();
    options.wishes.outline_digest = Some(Digest([9; 32]));
    refused(connect(&server, options), &["outline digest"]);
    let mut options = server.options();
    options.wishes.max_memory = 200_000;
    refused(connect(&server, options), &["memory", "200000"]);
}

#[test]
fn a_closed_port_an_unknown_name_and_no_address() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let options = || ConnectOptions::new(Trust::Fingerprint(Fingerprint([1; 32])));
    let error =
        refused(PrivateClient::connect(&address, options()), &["port is closed", "sordino serve", &address]);
    assert!(matches!(error, ClientError::Closed { .. }));
    let error = PrivateClient::connect("no-such-host.invalid", options());
    refused(error, &["no-such-host.invalid", "does not resolve", "spelling"]);
    refused(PrivateClient::connect("host:port", options()), &["HOST:PORT"]);
}
