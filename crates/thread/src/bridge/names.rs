//! Names that a grant can be narrowed to.

use crate::error::{Named, ThreadError};
use crate::rows::check_name;

/// The names that are granted.
#[derive(Debug, Clone)]
pub(super) enum Names {
    Only(Vec<String>),
    All,
}

impl Names {
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Only(names) if names.is_empty())
    }

    /// Adds names. Has no effect if all names are granted.
    pub(super) fn extend<N: Into<String>>(&mut self, more: impl IntoIterator<Item = N>) {
        if let Self::Only(names) = self {
            names.extend(more.into_iter().map(Into::into));
        }
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        match self {
            Self::Only(names) => names.iter().any(|granted| granted == name),
            Self::All => true,
        }
    }

    pub(super) fn checked(&self, what: Named) -> Result<Self, ThreadError> {
        if let Self::Only(names) = self {
            names.iter().try_for_each(|name| check_name(what, name))?;
        }
        Ok(self.clone())
    }
}
