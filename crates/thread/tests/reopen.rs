//! Tests stores in files: reopening, concurrent use, and files that are not stores.

use std::path::Path;
use std::time::Duration;

use execbox_thread::{EventQuery, MessageQuery, StorageFailure, ThreadError, ThreadQuery, ThreadStore};
use serde_json::json;
use tempfile::TempDir;

#[tokio::test]
async fn content_survives_reopening() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("threads.db");
    let store = ThreadStore::open(&path).await.unwrap();
    let thread = store.thread("t").unwrap();
    thread.write_file("/a", "file").await.unwrap();
    thread.set_env("A", "value").await.unwrap();
    let message = thread.add_message("user", json!({"text": "hi"})).await.unwrap();
    let event = thread.emit("x", json!([1])).await.unwrap();
    let before = store.threads(ThreadQuery::default()).await.unwrap();
    store.close().await;

    let store = ThreadStore::open(&path).await.unwrap();
    let thread = store.thread("t").unwrap();
    assert_eq!(thread.read_file("/a").await.unwrap(), b"file");
    assert_eq!(thread.get_env("A").await.unwrap().as_deref(), Some("value"));
    assert_eq!(thread.get_messages(MessageQuery::default()).await.unwrap(), [message]);
    assert_eq!(thread.events(EventQuery::default()).await.unwrap(), [event]);
    assert_eq!(store.threads(ThreadQuery::default()).await.unwrap(), before);
    assert_eq!(thread.emit("x", json!([2])).await.unwrap().seq, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn several_stores_can_create_and_use_one_file() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("threads.db");
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let path = path.clone();
            tokio::spawn(async move {
                let store = ThreadStore::open(path).await.unwrap();
                for _ in 0..20 {
                    store.thread("t").unwrap().emit("x", json!(null)).await.unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let store = ThreadStore::open(&path).await.unwrap();
    let events = store.thread("t").unwrap().events(EventQuery::default()).await.unwrap();
    assert_eq!(events.iter().map(|event| event.seq).collect::<Vec<_>>(), (1..=80).collect::<Vec<_>>());
}

#[cfg(unix)]
#[tokio::test]
async fn files_are_accessible_by_their_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = TempDir::new().unwrap();
    let store = ThreadStore::open(folder.path().join("threads.db")).await.unwrap();
    store.thread("t").unwrap().set_env("TOKEN", "s3cret").await.unwrap();
    let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(Result::unwrap).collect();
    assert!(files.len() > 1, "the write-ahead log is there");
    for file in files {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", file.file_name());
    }
}

#[tokio::test]
async fn special_names_of_sqlite_are_plain_file_names() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join(":memory:");
    ThreadStore::open(&path).await.unwrap().close().await;
    assert!(path.exists());
}

// ---- Files that are not stores ---------------------------------------------------------------------

async fn error_of(path: &Path) -> ThreadError {
    let error = ThreadStore::open(path).await.unwrap_err();
    let folder = path.parent().unwrap().to_str().unwrap();
    assert!(!error.to_string().contains(folder), "the message contains a path of the host: {error}");
    error
}

#[tokio::test]
async fn other_files_are_rejected_and_not_changed() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("notes.txt");
    let text = "These are my notes, and no database. ".repeat(100);
    std::fs::write(&path, &text).unwrap();
    let error = error_of(&path).await;
    assert!(matches!(error, ThreadError::Damaged { .. }), "{error:?}");
    assert_eq!(error.to_string(), DAMAGED);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);

    let path = folder.path().join("bookmarks.db");
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE bookmarks (url)").unwrap();
    let before = std::fs::read(&path).unwrap();
    assert!(matches!(error_of(&path).await, ThreadError::Foreign));
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

const DAMAGED: &str = "the file is damaged or not a thread store; restore it from a backup or choose another file";

#[tokio::test]
async fn newer_versions_are_rejected() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("threads.db");
    ThreadStore::open(&path).await.unwrap().close().await;
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = error_of(&path).await;
    assert!(matches!(error, ThreadError::Newer { found: 99, .. }), "{error:?}");
}

#[tokio::test]
async fn damaged_pages_are_reported_as_damage() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("threads.db");
    let store = ThreadStore::open(&path).await.unwrap();
    let thread = store.thread("t").unwrap();
    for number in 0..50 {
        thread.write_file(&format!("/{number}"), vec![7; 5_000]).await.unwrap();
        thread.add_message("user", json!("x".repeat(500))).await.unwrap();
    }
    store.close().await;
    // Overwrites all pages but the first, which has the header and the schema.
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4_096..].iter_mut().for_each(|byte| *byte = byte.wrapping_mul(31).wrapping_add(97));
    std::fs::write(&path, bytes).unwrap();

    let thread = match ThreadStore::open(&path).await {
        Ok(store) => store.thread("t").unwrap(),
        Err(error) => return assert_eq!(error.to_string(), DAMAGED),
    };
    assert_eq!(thread.read_file("/1").await.unwrap_err().to_string(), DAMAGED);
    assert_eq!(thread.get_messages(MessageQuery::default()).await.unwrap_err().to_string(), DAMAGED);
    assert_eq!(thread.write_file("/1", "x").await.unwrap_err().to_string(), DAMAGED);
}

#[tokio::test]
async fn inconsistent_content_is_reported_as_damage() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("threads.db");
    let store = ThreadStore::open(&path).await.unwrap();
    let thread = store.thread("t").unwrap();
    thread.add_message("user", json!("fine")).await.unwrap();
    thread.write_file("/a", "fine").await.unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("UPDATE messages SET content = '{'; UPDATE threads SET bytes = 1").unwrap();
    assert_eq!(thread.get_messages(MessageQuery::default()).await.unwrap_err().to_string(), DAMAGED);
    assert_eq!(thread.delete_file("/a").await.unwrap_err().to_string(), DAMAGED);
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_is_an_error() {
    let folder = TempDir::new().unwrap();
    for path in [folder.path().join("no/such/folder/threads.db"), folder.path().to_owned()] {
        let error = error_of(&path).await;
        assert!(matches!(error, ThreadError::Storage { failure: StorageFailure::CannotOpen, .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_store_locked_by_another_process_is_busy() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("threads.db");
    let store = ThreadStore::builder().busy_timeout(Duration::from_millis(20)).open(&path).await.unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store.thread("t").unwrap().emit("x", json!(1)).await.unwrap_err();
    assert!(matches!(error, ThreadError::Storage { failure: StorageFailure::Busy, .. }), "{error:?}");
    other.execute_batch("COMMIT").unwrap();
    store.thread("t").unwrap().emit("x", json!(1)).await.unwrap();
}
