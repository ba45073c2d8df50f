//! Browsers that ask and do not read.

use tokio::net::TcpSocket;
use tokio::time::{Duration, Instant, timeout};

use super::*;

/// A connection that has asked for this and takes the first bytes of the answer alone.
async fn asks_and_waits(running: &Running, path: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(running.address).await.unwrap();
    let host = running.address;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).await.unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_slowly_keeps_no_page_from_others() {
    let store = Store::memory().await;
    let table = schema_files().pop().unwrap().loaded.unwrap().schema.unwrap();
    let system = System::open_with(table, store.clone(), Environment::new()).await.unwrap();
    let name = store.list_tables().await.unwrap().remove(0);
    for at in 0..12 {
        let mut item: Item = store_key(&system, at);
        item.insert("filling", "f".repeat(390_000));
        let put = PutItem { table: name.clone(), item, options: WriteOptions::default() };
        store.put_item(put).await.unwrap();
    }
    let running = serve(store, false);
    // More than there are threads for pages.
    let mut slow = Vec::new();
    for _ in 0..9 {
        slow.push(asks_and_waits(&running, &format!("/items/{name}?by=all&format=json")).await);
    }
    let shown = timeout(Duration::from_secs(20), get(&running, "/find")).await;
    assert_eq!(shown.expect("nobody waits for them").status, 200);
}

/// A key of the first table of a system, as a stranger's item has it.
fn store_key(system: &System, at: usize) -> Item {
    let table = &system.schema().tables[0];
    let keys = std::iter::once(&table.partition).chain(table.sort.as_ref());
    keys.map(|key| (key.attribute.clone(), AttributeValue::S(format!("STRANGER#{at}")))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_do_nothing_give_way_to_somebody_who_asks() {
    let running = serve(Store::memory().await, false);
    let mut idle = Vec::new();
    for _ in 0..64 {
        idle.push(asks_and_waits(&running, "/find").await);
    }
    let begun = Instant::now();
    loop {
        // One too many is closed unanswered, until room was made.
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        let host = running.address;
        let request = format!("GET /find HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let mut answer = Vec::new();
        if stream.write_all(request.as_bytes()).await.is_ok()
            && stream.read_to_end(&mut answer).await.is_ok()
            && answer.starts_with(b"HTTP/1.1 200")
        {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "they are in the way");
    }
}
