//! Where the daemon of a home keeps its things and where it listens: part of the outside contract, so that
//! clients and daemon cannot disagree.
//!
//! `AGENTD_HOME` or `--home` puts everything under one folder; without it the XDG folders hold it. Nothing
//! here creates a file; [`private_folder`] makes or checks a folder that only its user may enter.
//!
//! Invariants: every path is absolute; a place that somebody else could reach is refused, never mended.

use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Bytes of a Unix socket's path, the closing zero not counted.
pub const SOCKET_PATH_MAX_BYTES: usize = 107;
/// The name of the socket in its folder.
pub const SOCKET_NAME: &str = "agentd.sock";

/// Where things are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The folder given by `--home` or `AGENTD_HOME`, if one was.
    pub home: Option<PathBuf>,
    /// `config.toml` and what a person writes.
    pub config_dir: PathBuf,
    /// Databases, jobs, logs, the lock.
    pub data_dir: PathBuf,
    /// The runtime folder.
    pub run_dir: PathBuf,
    /// The socket a client connects to.
    pub socket: PathBuf,
    /// The socket was named by `AGENTD_SOCKET`: a client neither starts nor replaces what listens there.
    pub socket_given: bool,
    /// A folder we do not make but rely on, `XDG_RUNTIME_DIR`: it is checked before use.
    runtime_parent: Option<PathBuf>,
    /// What `HOME` says, where the folders hang on it: it has to be there already.
    user_home: Option<PathBuf>,
}

/// How a daemon is to be started.
#[derive(Clone, Debug, Default)]
pub struct DaemonStart {
    /// The folder given by `--home`.
    pub home: Option<PathBuf>,
    /// Leave the terminal, and report readiness on the channel that is stdout (see [`crate::ready`]).
    pub detached: bool,
}

/// Why a place cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// Nobody says where home is.
    #[error(
        "the home folder is not known: HOME is unset and the user has no entry in the passwd file; set AGENTD_HOME to an absolute folder"
    )]
    NoHome,
    /// A folder that is named relative to where we happen to be.
    #[error(
        "{variable} is {path:?}, which is not absolute; set it to an absolute folder, or set AGENTD_HOME"
    )]
    Relative {
        /// What named it.
        variable: &'static str,
        /// What it says.
        path: PathBuf,
    },
    /// A variable that cannot be a path.
    #[error("{variable} is empty; unset it or set it to an absolute folder")]
    Empty {
        /// What named it.
        variable: &'static str,
    },
    /// A home folder that does not exist is a mistake, not a wish to have one made.
    #[error("HOME is {path}, which is not there; set HOME or AGENTD_HOME to a folder of your own", path = path.display())]
    HomeMissing {
        /// What it says.
        path: PathBuf,
    },
    /// A folder could not be made or looked at.
    #[error("cannot use the folder {path}: {source}; make it writable or set AGENTD_HOME to another folder")]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Something other than a folder is in the way.
    #[error("{path} is not a folder; move it away or set AGENTD_HOME to another folder")]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// It belongs to somebody else.
    #[error(
        "the folder {path} belongs to user {owner}, not to user {us}; set AGENTD_HOME or XDG_RUNTIME_DIR to a folder of your own"
    )]
    ForeignOwner {
        /// The folder.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who we are.
        us: u32,
    },
    /// Others may enter it.
    #[error("the folder {path} has mode {mode:04o}, so other users can reach it; run `chmod 700 {path}`", path = path.display())]
    TooOpen {
        /// The folder.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Even the short form is too long.
    #[error("the socket path {path} has {len} bytes, at most {SOCKET_PATH_MAX_BYTES} are possible")]
    SocketTooLong {
        /// The path.
        path: PathBuf,
        /// Its length.
        len: usize,
    },
}

/// The folders of a user without `AGENTD_HOME`.
struct UserFolders {
    config: PathBuf,
    data: PathBuf,
    runtime: Option<PathBuf>,
}

impl Place {
    /// Where the daemon keeps its things and listens; `AGENTD_SOCKET` does not move it.
    pub fn of_daemon(home: Option<&Path>) -> Result<Self, PlaceError> {
        locate(home, &|name| std::env::var_os(name), user_folders)
    }

    /// Where a client looks; `AGENTD_SOCKET` overrides the socket.
    pub fn of_client(home: Option<&Path>) -> Result<Self, PlaceError> {
        let place = Self::of_daemon(home)?;
        match std::env::var_os("AGENTD_SOCKET") {
            None => Ok(place),
            Some(text) => place.with_socket(text),
        }
    }

    fn with_socket(mut self, text: OsString) -> Result<Self, PlaceError> {
        self.socket = absolute("AGENTD_SOCKET", text)?;
        check_len(&self.socket)?;
        self.socket_given = true;
        Ok(self)
    }

    /// What to show as the home: the one folder, or the data folder.
    pub fn home_display(&self) -> &Path {
        self.home.as_deref().unwrap_or(&self.data_dir)
    }

    /// The lock that says whether a daemon runs.
    pub fn lock_file(&self) -> PathBuf {
        self.data_dir.join("daemon.lock")
    }

    /// The configuration of the user.
    pub fn config_file(&self) -> PathBuf {
        self.config_dir.join("config.toml")
    }

    /// The folder of the log files.
    pub fn logs_dir(&self) -> PathBuf {
        self.data_dir.join("logs")
    }

    /// The folder of the job folders.
    pub fn jobs_dir(&self) -> PathBuf {
        self.data_dir.join("jobs")
    }

    /// The folder of recorded requests and answers, one folder for each session.
    pub fn records_dir(&self) -> PathBuf {
        self.data_dir.join("records")
    }

    /// Makes and checks the folders a daemon needs: all 0700 and ours.
    pub fn prepare(&self) -> Result<(), PlaceError> {
        if let Some(parent) = &self.runtime_parent {
            check_private(parent)?;
        }
        if let Some(path) = self.user_home.as_ref().filter(|path| !path.is_dir()) {
            return Err(PlaceError::HomeMissing { path: path.clone() });
        }
        // The data folder of a user may have been made by hand; what is secret in it is 0600 of itself. The
        // runtime folder holds the socket, and there others have no business at all.
        owned_folder(&self.config_dir)?;
        owned_folder(&self.data_dir)?;
        private_folder(&self.run_dir)?;
        self.prepare_socket_folder()
    }

    /// Checks the folder of the socket, for a client before it connects.
    pub fn check_socket_folder(&self) -> Result<(), PlaceError> {
        if self.socket_given {
            return Ok(());
        }
        if let Some(parent) = &self.runtime_parent {
            check_private(parent)?;
        }
        for folder in self.socket_folders() {
            match std::fs::symlink_metadata(&folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                _ => check_private(&folder)?,
            }
        }
        Ok(())
    }

    fn prepare_socket_folder(&self) -> Result<(), PlaceError> {
        self.socket_folders().iter().try_for_each(|folder| private_folder(folder))
    }

    /// The folders on the way to the socket that must be private, the outermost first.
    fn socket_folders(&self) -> Vec<PathBuf> {
        let Some(folder) = self.socket.parent() else { return Vec::new() };
        if folder == self.run_dir {
            return vec![folder.to_path_buf()];
        }
        folder.parent().into_iter().chain([folder]).map(Path::to_path_buf).collect()
    }
}

fn locate(
    home: Option<&Path>,
    env: &dyn Fn(&str) -> Option<OsString>,
    user: impl FnOnce() -> Option<UserFolders>,
) -> Result<Place, PlaceError> {
    let home = match (home, env("AGENTD_HOME")) {
        // What a person types is meant from where they stand.
        (Some(path), _) if path.as_os_str().is_empty() => {
            return Err(PlaceError::Empty { variable: "--home" });
        }
        (Some(path), _) => Some(
            std::path::absolute(path)
                .map_err(|source| PlaceError::Unusable { path: path.to_path_buf(), source })?,
        ),
        (None, Some(text)) => Some(absolute("AGENTD_HOME", text)?),
        (None, None) => None,
    };
    let mut user_home = None;
    let (config_dir, data_dir, run_dir, runtime_parent) = match &home {
        Some(home) => (home.join("config"), home.join("data"), home.join("run"), None),
        None => {
            if let Some(text) = env("HOME").filter(|text| !text.is_empty()) {
                user_home = Some(absolute("HOME", text)?);
            }
            let folders = user().ok_or(PlaceError::NoHome)?;
            // Without a runtime folder of the session the data folder holds the socket: it is as private.
            let run =
                folders.runtime.as_ref().map_or_else(|| folders.data.join("run"), |dir| dir.join("agentd"));
            (folders.config, folders.data, run, folders.runtime)
        }
    };
    let socket = socket_in(&run_dir)?;
    // Whoever names both folders elsewhere does not need it.
    user_home.take_if(|home| !config_dir.starts_with(&*home) && !data_dir.starts_with(&*home));
    Ok(Place { home, config_dir, data_dir, run_dir, socket, socket_given: false, runtime_parent, user_home })
}

fn user_folders() -> Option<UserFolders> {
    let base = directories::BaseDirs::new()?;
    Some(UserFolders {
        config: base.config_dir().join("agentd"),
        data: base.data_dir().join("agentd"),
        runtime: base.runtime_dir().map(Path::to_path_buf),
    })
}

fn absolute(variable: &'static str, text: OsString) -> Result<PathBuf, PlaceError> {
    if text.is_empty() {
        return Err(PlaceError::Empty { variable });
    }
    let path = PathBuf::from(text);
    if path.is_absolute() { Ok(path) } else { Err(PlaceError::Relative { variable, path }) }
}

/// The socket of a runtime folder. A path over the limit of the system becomes a short one that is derived from
/// the real one, so that everybody finds the same.
fn socket_in(run_dir: &Path) -> Result<PathBuf, PlaceError> {
    let plain = run_dir.join(SOCKET_NAME);
    if plain.as_os_str().len() <= SOCKET_PATH_MAX_BYTES {
        return Ok(plain);
    }
    let digest = Sha256::digest(run_dir.as_os_str().as_bytes());
    let name: String = digest.iter().take(10).map(|byte| format!("{byte:02x}")).collect();
    let short = PathBuf::from(format!("/tmp/agentd-{}", our_uid())).join(name).join(SOCKET_NAME);
    check_len(&short)?;
    Ok(short)
}

fn check_len(socket: &Path) -> Result<(), PlaceError> {
    let len = socket.as_os_str().len();
    if len > SOCKET_PATH_MAX_BYTES {
        return Err(PlaceError::SocketTooLong { path: socket.to_path_buf(), len });
    }
    Ok(())
}

/// Our effective user id.
pub fn our_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Makes a folder 0700 with its parents, or checks that the one that is there is ours.
pub fn owned_folder(path: &Path) -> Result<(), PlaceError> {
    make(path)?;
    let meta = look(path, std::fs::metadata(path))?;
    check_owner(path, &meta)
}

/// Makes a folder 0700 with its parents, or checks that the one that is there is ours, is not a link, and lets
/// nobody else in.
pub fn private_folder(path: &Path) -> Result<(), PlaceError> {
    make(path)?;
    check_private(path)
}

fn make(path: &Path) -> Result<(), PlaceError> {
    match DirBuilder::new().recursive(true).mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(PlaceError::NotAFolder { path: path.to_path_buf() })
        }
        Err(source) => Err(PlaceError::Unusable { path: path.to_path_buf(), source }),
        Ok(()) => Ok(()),
    }
}

fn look(path: &Path, meta: io::Result<Metadata>) -> Result<Metadata, PlaceError> {
    let meta = meta.map_err(|source| PlaceError::Unusable { path: path.to_path_buf(), source })?;
    if meta.is_dir() { Ok(meta) } else { Err(PlaceError::NotAFolder { path: path.to_path_buf() }) }
}

fn check_owner(path: &Path, meta: &Metadata) -> Result<(), PlaceError> {
    let us = our_uid();
    if meta.uid() == us {
        return Ok(());
    }
    Err(PlaceError::ForeignOwner { path: path.to_path_buf(), owner: meta.uid(), us })
}

fn check_private(path: &Path) -> Result<(), PlaceError> {
    let meta = look(path, std::fs::symlink_metadata(path))?;
    check_owner(path, &meta)?;
    let mode = meta.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(PlaceError::TooOpen { path: path.to_path_buf(), mode });
    }
    Ok(())
}

#[cfg(test)]
#[path = "place_tests.rs"]
mod tests;
