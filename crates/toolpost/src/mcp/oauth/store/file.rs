//! Credentials in a file of their owner.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use data_encoding::HEXLOWER;
use futures::FutureExt;
use futures::future::BoxFuture;
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep};

use super::memory::put;
use super::{CredentialStore, Credentials, StoreError, StoreGuard};

/// The largest file that is read.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// How long another process may hold a lock: longer than any refresh takes.
const LOCK_DEADLINE: Duration = Duration::from_secs(90);
/// How often it is looked whether a lock is free. Waiting for it without looking would hold a thread
/// that nothing can stop.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

type Kept = BTreeMap<String, Vec<Credentials>>;

/// Credentials in a JSON file that only its owner can read.
///
/// The file is replaced as a whole or not at all, and several processes may use it at once. Beside
/// it there is a folder, `<file>.locks`, with one empty file for each resource.
#[derive(Debug, Clone)]
pub struct FileStore(PathBuf);

impl FileStore {
    /// The store in this file, which comes to be, with its folder, when something is kept.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Changes the file while nobody else does.
    async fn change<F>(&self, change: F) -> Result<(), StoreError>
    where
        F: FnOnce(&mut Kept) + Send + 'static,
    {
        let held = self.locked("file").await?;
        let path = self.0.clone();
        blocking(move || {
            let mut kept = read(&path)?;
            change(&mut kept);
            write(&path, &kept)?;
            drop(held);
            Ok(())
        })
        .await
    }

    async fn locked(&self, name: &str) -> Result<File, StoreError> {
        let mut folder = self.0.clone().into_os_string();
        folder.push(".locks");
        let folder = PathBuf::from(folder);
        let path = folder.join(name);
        let path = &path;
        let failed = |error: io::Error| failed("lock", path, error);
        create_folder(&folder).map_err(failed)?;
        let file = private().write(true).create(true).truncate(false).open(path).map_err(failed)?;
        let deadline = Instant::now() + LOCK_DEADLINE;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    sleep(LOCK_PAUSE).await;
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(failed(io::ErrorKind::TimedOut.into()));
                }
            }
        }
    }
}

impl CredentialStore for FileStore {
    fn load<'a>(
        &'a self,
        resource: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Credentials>, StoreError>> {
        let (path, resource) = (self.0.clone(), resource.to_owned());
        blocking(move || Ok(read(&path)?.remove(&resource).unwrap_or_default())).boxed()
    }

    fn save<'a>(
        &'a self,
        resource: &'a str,
        credentials: Credentials,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let resource = resource.to_owned();
        self.change(move |kept| put(kept.entry(resource).or_default(), credentials)).boxed()
    }

    fn forget<'a>(
        &'a self,
        resource: &'a str,
        issuer: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let (resource, issuer) = (resource.to_owned(), issuer.to_owned());
        self.change(move |kept| {
            if let Some(list) = kept.get_mut(&resource) {
                list.retain(|kept| kept.issuer != issuer);
            }
            kept.retain(|_, list| !list.is_empty());
        })
        .boxed()
    }

    fn lock<'a>(&'a self, resource: &'a str) -> BoxFuture<'a, Result<StoreGuard, StoreError>> {
        let digest = Sha256::digest(resource);
        let name = HEXLOWER.encode(&digest[..8]);
        async move { Ok(StoreGuard::new(self.locked(&name).await?)) }.boxed()
    }
}

async fn blocking<T, F>(work: F) -> Result<T, StoreError>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, StoreError> + Send + 'static,
{
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(StoreError::new("the store was interrupted").because(error)))
}

fn read(path: &Path) -> Result<Kept, StoreError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Kept::new()),
        Err(error) => return Err(failed("read", path, error)),
    };
    let mut text = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut text).map_err(|error| failed("read", path, error))?;
    // The words of the parser could quote a token; where it stopped does not.
    serde_json::from_slice(&text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let path = path.display();
        StoreError::new(format!("`{path}` is damaged at line {line}, column {column}"))
    })
}

fn write(path: &Path, kept: &Kept) -> Result<(), StoreError> {
    let failed = |error| failed("write", path, error);
    let text = serde_json::to_vec_pretty(kept).map_err(|error| failed(error.into()))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    create_folder(folder.unwrap_or(Path::new("."))).map_err(failed)?;
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    // Whoever holds the lock may remove what a process left that ended half-way.
    let _ = fs::remove_file(&temporary);
    let written = private().write(true).create_new(true).open(&temporary).and_then(|mut file| {
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    });
    written.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        failed(error)
    })
}

/// Files that only their owner can read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn create_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn failed(verb: &str, path: &Path, error: io::Error) -> StoreError {
    StoreError::new(format!("cannot {verb} `{}`", path.display())).because(error)
}
