//! Faults outside the TLS channel: a proxy that sees records and no keys.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use super::fault::{Injector, Plan, Way};

/// Type, version, length (RFC 8446, 5.1).
const HEADER_BYTES: usize = 5;

/// Stands between one client and the server, which it reaches by this address.
pub(crate) fn proxy(server: SocketAddr, plan: &Arc<Plan>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let plan = Arc::clone(plan);
    thread::spawn(move || {
        let near = listener.accept().unwrap().0;
        let far = TcpStream::connect(server).unwrap();
        for socket in [&near, &far] {
            socket.set_nodelay(true).unwrap();
        }
        let (back_from, back_to) = (far.try_clone().unwrap(), near.try_clone().unwrap());
        let backward = Injector::new(&plan, Way::ToClient, HEADER_BYTES);
        thread::spawn(move || pass_on(back_from, back_to, backward));
        pass_on(near, far, Injector::new(&plan, Way::ToServer, HEADER_BYTES));
    });
    address
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, mut injector: Injector) {
    while let Ok(record) = read_record(&mut from) {
        let (records, is_end) = injector.meet(record);
        let sent = records.iter().try_for_each(|record| to.write_all(record));
        if is_end {
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
        }
        if is_end || sent.is_err() {
            return;
        }
    }
    // Whoever hung up may still listen.
    let _ = to.shutdown(Shutdown::Write);
}

fn read_record(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut record = vec![0; HEADER_BYTES];
    from.read_exact(&mut record)?;
    let length = usize::from(u16::from_be_bytes([record[3], record[4]]));
    record.resize(HEADER_BYTES + length, 0);
    from.read_exact(&mut record[HEADER_BYTES..])?;
    Ok(record)
}
