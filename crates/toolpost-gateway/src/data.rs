//! The folder in which a gateway keeps what outlives it.

pub(crate) mod atomic_file;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::auth::Token;

/// What the operator's token is called.
const OPERATOR_TOKEN: &str = "operator.token";

/// A folder that only its owner can look into.
#[derive(Debug, Clone)]
pub struct DataDir(PathBuf);

/// Why there is no place to keep anything.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The system does not say where a user's data are.
    #[error("there is no home folder to keep data in; name a folder with --data")]
    NoHome,
    /// A file or folder cannot be made or read.
    #[error("cannot use {}: {source}; name another folder with --data", path.display())]
    #[non_exhaustive]
    Unusable {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The folder that was named is not there.
    #[error("there is no folder {}; --data names the data folder of a gateway", .0.display())]
    NotFound(PathBuf),
    /// The file is there, and holds no token.
    #[error("{} holds no token; remove it, and the next start makes another", .0.display())]
    EmptyTokenFile(PathBuf),
    /// The file holds a token that can be guessed.
    #[error(
        "{} holds less than {MIN_TOKEN_LEN} characters in one word, which can be guessed; remove it, \
         and the next start makes another",
        .0.display()
    )]
    WeakToken(PathBuf),
    /// The file is not its owner's alone.
    #[error(
        "{} can be read or written by others (mode {mode:04o}), who may know the token; remove it, \
         and the next start makes another, or say `chmod 600` if nobody has seen it",
        path.display()
    )]
    #[non_exhaustive]
    InsecurePermissions {
        /// Which.
        path: PathBuf,
        /// What everybody may do with it.
        mode: u32,
    },
}

/// The shortest token of the operator's that is accepted: one that `toolpost` makes has 47 characters.
const MIN_TOKEN_LEN: usize = 32;

impl DataDir {
    /// The folder of this user where none is named, made or not.
    ///
    /// # Errors
    ///
    /// [`DataError::NoHome`].
    pub fn user_default() -> Result<PathBuf, DataError> {
        let folder =
            |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|f| f.is_absolute());
        let data = folder("XDG_DATA_HOME")
            .or_else(|| folder("APPDATA"))
            .or_else(|| folder("HOME").map(|home| home.join(".local/share")));
        Ok(data.ok_or(DataError::NoHome)?.join("toolpost"))
    }

    /// Opens a folder, or the user's where none is named, and makes it if it is not there.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub fn open(explicit_path: Option<&Path>) -> Result<Self, DataError> {
        let path = explicit_path.map_or_else(Self::user_default, |path| Ok(path.to_owned()))?;
        create_private_dir(&path)
            .map_err(|source| DataError::Unusable { path: path.clone(), source })?;
        Ok(Self(path))
    }

    /// A folder to read from, or the user's where none is named; nothing is made.
    ///
    /// # Errors
    ///
    /// The one that was named is not there.
    pub fn open_existing(explicit_path: Option<&Path>) -> Result<Self, DataError> {
        match explicit_path {
            Some(path) if !path.is_dir() => Err(DataError::NotFound(path.to_owned())),
            Some(path) => Ok(Self(path.to_owned())),
            None => Self::user_default().map(Self),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The operator's token; the first who asks for it makes it.
    ///
    /// # Errors
    ///
    /// It can be neither read nor made, or the file holds something else.
    pub fn operator_token(&self) -> Result<Token, DataError> {
        match self.read_operator_token()? {
            Some(token) => Ok(token),
            None => self.create_operator_token(),
        }
    }

    /// The operator's token, if a gateway was here before.
    ///
    /// # Errors
    ///
    /// It cannot be read, or the file holds something else.
    pub fn read_operator_token(&self) -> Result<Option<Token>, DataError> {
        let path = self.operator_token_path();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(DataError::Unusable { path, source }),
        };
        let token = text.trim();
        if token.is_empty() {
            return Err(DataError::EmptyTokenFile(path));
        }
        if token.len() < MIN_TOKEN_LEN || token.contains(char::is_whitespace) {
            return Err(DataError::WeakToken(path));
        }
        check_private(&path)?;
        Ok(Some(Token::from(token.to_owned())))
    }

    /// Where the operator's token is kept.
    pub fn operator_token_path(&self) -> PathBuf {
        self.0.join(OPERATOR_TOKEN)
    }

    /// Written beside and linked into place, so that nobody reads half of it and of two who make one
    /// at the same time both end up with the same.
    fn create_operator_token(&self) -> Result<Token, DataError> {
        let path = self.operator_token_path();
        let unusable = |source| DataError::Unusable { path: path.clone(), source };
        let token = Token::generate().map_err(unusable)?;
        let draft = self.0.join(format!("{OPERATOR_TOKEN}.{}", token.hash()));
        write_private(&draft, format!("{}\n", token.reveal()).as_bytes()).map_err(unusable)?;
        let linked = fs::hard_link(&draft, &path);
        let _ = fs::remove_file(&draft);
        match linked {
            Ok(()) => Ok(token),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.read_operator_token()?.ok_or_else(|| unusable(error))
            }
            Err(error) => Err(unusable(error)),
        }
    }
}

/// Makes a folder that only its owner can look into, unless it is there.
pub(crate) fn create_private_dir(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

/// Whether nobody but the owner of a file can do anything with it.
#[cfg(unix)]
fn check_private(path: &Path) -> Result<(), DataError> {
    use std::os::unix::fs::PermissionsExt;

    let metadata = fs::metadata(path)
        .map_err(|source| DataError::Unusable { path: path.to_owned(), source })?;
    match metadata.permissions().mode() & 0o777 {
        mode if mode & 0o077 == 0 => Ok(()),
        mode => Err(DataError::InsecurePermissions { path: path.to_owned(), mode }),
    }
}

/// Who may read a file is said by the folder that it is in.
#[cfg(not(unix))]
fn check_private(_: &Path) -> Result<(), DataError> {
    Ok(())
}

/// A new file that only its owner can read.
fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.write(true).create_new(true).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A folder of this test alone, gone at its end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            Self(folder)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn operator_token_is_created_once_with_private_mode() {
        let temp_dir = Scratch::new("toolpost-data");
        let folder = DataDir::open(Some(&temp_dir.0.join("deep"))).unwrap();
        assert!(folder.read_operator_token().unwrap().is_none());
        let made = std::thread::scope(|scope| {
            let makers: Vec<_> =
                (0..4).map(|_| scope.spawn(|| folder.operator_token().unwrap())).collect();
            makers.into_iter().map(|maker| maker.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(made.iter().all(|token| *token == made[0]), "one token for all who make it");
        assert_eq!(folder.operator_token().unwrap(), made[0]);

        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(folder.path()), 0o700);
        assert_eq!(mode(&folder.path().join(OPERATOR_TOKEN)), 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
    }

    /// Each row: what the file holds, its mode, and what is said about it.
    #[test]
    fn weak_or_exposed_operator_token_is_rejected() {
        let temp_dir = Scratch::new("toolpost-data-weak");
        let folder = DataDir::open(Some(&temp_dir.0)).unwrap();
        let made = Token::generate().unwrap().reveal().to_owned();
        let own = "x".repeat(MIN_TOKEN_LEN);
        for (content, mode, expected_error) in [
            (made.as_str(), 0o600, None),
            (&made, 0o400, None),
            (&own, 0o600, None),
            (&own[1..], 0o600, Some("can be guessed; remove it")),
            ("short\n", 0o600, Some("can be guessed; remove it")),
            (&format!("{own} {own}"), 0o600, Some("in one word")),
            (&made, 0o666, Some("by others (mode 0666)")),
            (&made, 0o640, Some("by others (mode 0640)")),
            (&made, 0o604, Some("`chmod 600`")),
        ] {
            let path = folder.operator_token_path();
            let _ = fs::remove_file(&path);
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let error = folder.operator_token().err().map(|error| error.to_string());
            assert_eq!(error.is_some(), expected_error.is_some(), "{mode:o}: {error:?}");
            let error = error.unwrap_or_default();
            assert!(error.contains(expected_error.unwrap_or_default()), "{mode:o}: {error}");
            assert!(!error.contains(content.trim()), "{error}");
        }
    }

    #[test]
    fn open_existing_creates_nothing() {
        let temp_dir = Scratch::new("toolpost-data-look");
        let error_message = DataDir::open_existing(Some(&temp_dir.0)).unwrap_err().to_string();
        assert!(
            error_message.contains("there is no folder") && !temp_dir.0.exists(),
            "{error_message}"
        );
        let made = DataDir::open(Some(&temp_dir.0)).unwrap();
        assert_eq!(DataDir::open_existing(Some(&temp_dir.0)).unwrap().path(), made.path());
    }

    #[test]
    fn unusable_data_dir_error_names_the_path() {
        let temp_dir = Scratch::new("toolpost-data-wrong");
        let folder = DataDir::open(Some(&temp_dir.0)).unwrap();
        fs::write(temp_dir.0.join(OPERATOR_TOKEN), " \n").unwrap();
        let error_message = folder.operator_token().unwrap_err().to_string();
        assert!(error_message.contains("holds no token; remove it"), "{error_message}");
        let below_a_file = temp_dir.0.join(OPERATOR_TOKEN).join("x");
        let error_message = DataDir::open(Some(&below_a_file)).unwrap_err().to_string();
        assert!(error_message.ends_with("name another folder with --data"), "{error_message}");
    }
}
