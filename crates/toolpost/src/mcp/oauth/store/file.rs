//! Credential store in a file that only its owner can read.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use data_encoding::HEXLOWER;
use futures::FutureExt;
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep};

use super::memory::upsert;
use super::{CredentialStore, Credentials, StoreError, StoreFuture, StoreGuard};

/// Maximum size of the file in bytes.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Maximum time to wait for a lock of another process; longer than any refresh.
const LOCK_TIMEOUT: Duration = Duration::from_secs(90);
/// Interval between attempts to lock. A blocking lock would occupy a thread and cannot be canceled.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(20);

type CredentialMap = BTreeMap<String, Vec<Credentials>>;

/// Credentials in a JSON file that only its owner can read.
///
/// The file is replaced atomically, and several processes can use it concurrently. Lock files are
/// in the folder `<file>.locks`: one for the file, and an empty one for each resource.
#[derive(Debug, Clone)]
pub struct FileStore(PathBuf);

impl FileStore {
    /// Creates a store for this file, which is created when credentials are saved.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Updates the file while holding its lock.
    async fn update<F>(&self, change: F) -> Result<(), StoreError>
    where
        F: FnOnce(&mut CredentialMap) + Send + 'static,
    {
        let held = self.lock_file("file").await?;
        let path = self.0.clone();
        run_blocking(move || {
            let mut stored = read(&path)?;
            change(&mut stored);
            write(&path, &stored)?;
            drop(held);
            Ok(())
        })
        .await
    }

    async fn lock_file(&self, name: &str) -> Result<File, StoreError> {
        let mut folder = self.0.clone().into_os_string();
        folder.push(".locks");
        let folder = PathBuf::from(folder);
        let path = folder.join(name);
        let path = &path;
        let failed = |error: io::Error| io_error("lock", path, error);
        create_private_dir(&folder).map_err(failed)?;
        let file = private_options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        let deadline = Instant::now() + LOCK_TIMEOUT;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    sleep(LOCK_POLL_INTERVAL).await;
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(failed(io::ErrorKind::TimedOut.into()));
                }
            }
        }
    }
}

impl CredentialStore for FileStore {
    fn load<'a>(&'a self, resource: &'a str) -> StoreFuture<'a, Vec<Credentials>> {
        let (path, resource) = (self.0.clone(), resource.to_owned());
        run_blocking(move || Ok(read(&path)?.remove(&resource).unwrap_or_default())).boxed()
    }

    fn save<'a>(&'a self, resource: &'a str, credentials: Credentials) -> StoreFuture<'a, ()> {
        let resource = resource.to_owned();
        self.update(move |stored| upsert(stored.entry(resource).or_default(), credentials)).boxed()
    }

    fn remove<'a>(&'a self, resource: &'a str, issuer: &'a str) -> StoreFuture<'a, ()> {
        let (resource, issuer) = (resource.to_owned(), issuer.to_owned());
        self.update(move |stored| {
            if let Some(list) = stored.get_mut(&resource) {
                list.retain(|stored| stored.issuer != issuer);
            }
            stored.retain(|_, list| !list.is_empty());
        })
        .boxed()
    }

    fn lock<'a>(&'a self, resource: &'a str) -> StoreFuture<'a, StoreGuard> {
        let digest = Sha256::digest(resource);
        let name = HEXLOWER.encode(&digest[..8]);
        async move { Ok(StoreGuard::new(self.lock_file(&name).await?)) }.boxed()
    }
}

async fn run_blocking<T, F>(work: F) -> Result<T, StoreError>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, StoreError> + Send + 'static,
{
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(
        |error| Err(StoreError::new("the store was interrupted").with_source(error)),
    )
}

fn read(path: &Path) -> Result<CredentialMap, StoreError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(CredentialMap::new()),
        Err(error) => return Err(io_error("read", path, error)),
    };
    let mut text = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut text).map_err(|error| io_error("read", path, error))?;
    // The parser error could quote a token; the position cannot.
    serde_json::from_slice(&text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let path = path.display();
        StoreError::new(format!("`{path}` is damaged at line {line}, column {column}"))
    })
}

fn write(path: &Path, stored: &CredentialMap) -> Result<(), StoreError> {
    let failed = |error| io_error("write", path, error);
    let text = serde_json::to_vec_pretty(stored).map_err(|error| failed(error.into()))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    create_private_dir(folder.unwrap_or(Path::new("."))).map_err(failed)?;
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    // The lock is held, so a leftover file of an interrupted process can be removed.
    let _ = fs::remove_file(&temporary);
    let written =
        private_options().write(true).create_new(true).open(&temporary).and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&temporary, path)
        });
    written.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        failed(error)
    })
}

/// Returns options for files that only their owner can read.
fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn create_private_dir(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn io_error(verb: &str, path: &Path, error: io::Error) -> StoreError {
    StoreError::new(format!("cannot {verb} `{}`", path.display())).with_source(error)
}
