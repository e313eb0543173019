//! A browser's frames become a connection of the service, and back: one thread for each direction.

use std::io::{self, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::frames::{self, PIECE_BYTES, Word};
use crate::server::Service;

/// Passes bytes on until either side ends.
pub(super) fn run(browser: TcpStream, address: IpAddr, service: &Arc<Service>) -> io::Result<()> {
    let (ours, theirs) = pair()?;
    service.admit(theirs, SocketAddr::new(address, 0), false);
    let writer = Arc::new(Mutex::new(browser.try_clone()?));
    let down = Down { session: ours.try_clone()?, browser: Arc::clone(&writer) };
    let downwards = thread::Builder::new().name("web-down".to_owned()).spawn(move || down.run())?;
    let result = upwards(&browser, &ours, &writer);
    // The session reads the end; what it still says is passed on before the browser is let go.
    let _ = ours.shutdown(Shutdown::Write);
    let _ = downwards.join();
    let _ = browser.shutdown(Shutdown::Both);
    result
}

/// From the browser to the session.
fn upwards(browser: &TcpStream, mut session: &TcpStream, writer: &Mutex<TcpStream>) -> io::Result<()> {
    let (mut browser, mut buffer) = (BufReader::with_capacity(PIECE_BYTES, browser), vec![0; PIECE_BYTES]);
    loop {
        match frames::read(&mut browser, &mut session, &mut buffer)? {
            Word::Passed => {}
            Word::Ping(said) => lock(writer).write_all(&frames::pong(&said))?,
            Word::Close => return Ok(()),
        }
    }
}

/// From the session to the browser.
struct Down {
    session: TcpStream,
    browser: Arc<Mutex<TcpStream>>,
}

impl Down {
    fn run(mut self) {
        let mut buffer = vec![0; PIECE_BYTES];
        while let Ok(count @ 1..) = self.session.read(&mut buffer) {
            let mut frame = frames::binary_head(count);
            frame.extend_from_slice(&buffer[..count]);
            if lock(&self.browser).write_all(&frame).is_err() {
                break;
            }
        }
        let mut browser = lock(&self.browser);
        // The browser may be gone already; then there is nobody to say it to.
        let _ = browser.write_all(&frames::close());
        // Whoever waits for the browser or the session looks up.
        let _ = browser.shutdown(Shutdown::Both);
        let _ = self.session.shutdown(Shutdown::Both);
    }
}

fn lock(stream: &Mutex<TcpStream>) -> std::sync::MutexGuard<'_, TcpStream> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Two ends of a connection inside this machine.
fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let ours = TcpStream::connect(listener.local_addr()?)?;
    loop {
        let (theirs, from) = listener.accept()?;
        // Somebody else may have knocked first.
        if from == ours.local_addr()? {
            ours.set_nodelay(true)?;
            return Ok((ours, theirs));
        }
    }
}
