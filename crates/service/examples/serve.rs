//! Serves one model until standard input ends.
//!
//! `cargo run -p sordino-service --example serve -- MODEL.sordino [ADDRESS]`

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use std::collections::BTreeMap;
use std::error::Error;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use sordino_service::{
    Identity, InferenceModel, Limits, ModelName, Reveal, ServedModel, Service, ServiceParts, TlsAcceptor,
    WeightMemory,
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("name a model file, made by `sordino freeze`")?;
    let listen = arguments.next().unwrap_or_else(|| "127.0.0.1:0".to_owned());

    let model = InferenceModel::load(Path::new(&file))?;
    let served = ServedModel::new(&model, Reveal::Logits, WeightMemory::Everything)?;
    // Clients know the server by this certificate's fingerprint. A real one keeps it across restarts.
    let identity = Identity::generate()?;
    let fingerprint = identity.fingerprint();

    let service = Service::new(ServiceParts {
        models: BTreeMap::from([(ModelName::new("example")?, Arc::new(served))]),
        acceptor: TlsAcceptor::new(identity.into_key(), None)?,
        limits: Limits::default(),
        store: None,
        proxies: Vec::new(),
    })?;
    let listener = TcpListener::bind(listen)?;
    let address = listener.local_addr()?;
    println!("{address} {fingerprint}");

    thread::spawn({
        let service = Arc::clone(&service);
        move || service.run(&listener)
    });
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    let is_clean = service.close(address, Duration::from_secs(10));
    println!("{} images classified", service.metrics().classified.get());
    if is_clean { Ok(()) } else { Err("some clients were cut off".into()) }
}
