//! Asks a server about an image that it never sees.
//!
//! `cargo run -p sordino-client --example classify -- HOST:PORT FINGERPRINT [PIXELS]`, where the file PIXELS has the bytes of
//! the image, channel by channel; without it a random image is asked about.

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;

use sordino_client::{Answer, ConnectOptions, Image, PrivateClient, Trust};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().ok_or("name the server, as HOST:PORT")?;
    let fingerprint = arguments.next().ok_or("name the server's fingerprint, as it prints it")?.parse()?;

    let options = ConnectOptions::new(Trust::Fingerprint(fingerprint));
    let mut client = PrivateClient::connect(&address, options)?;
    let cost = client.cost()?;
    println!("{}: {} bytes, at least {:?} on this link", client.model(), cost.bytes(), cost.least_time());

    // The offline work needs no image: do it when there is time.
    client.prepare(1)?;
    let input = client.outline().input;
    let image = match arguments.next() {
        Some(file) => Image::new(input, std::fs::read(file)?)?,
        None => Image::random(input, 1),
    };

    // From here on it is a matter of milliseconds. The server sees neither the image nor the answer.
    let answer = client.classify(&image)?;
    if let Answer::Logits(logits) = &answer {
        println!("logits {logits:?}");
    }
    let name = client.outline().class_name(answer.class()).unwrap_or("a class without a name");
    println!("class {}: {name}", answer.class());
    client.finish()?;
    Ok(())
}
