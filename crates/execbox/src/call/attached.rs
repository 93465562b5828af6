//! Values of a caller that its tools can read during an execution.

use std::any::Any;
use std::sync::Arc;

/// Values, at most one of each type. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attached(Option<Arc<Vec<Arc<dyn Any + Send + Sync>>>>);

impl Attached {
    pub(crate) fn add<T: Any + Send + Sync>(&mut self, value: T) {
        let mut values = self.0.as_ref().map_or_else(Vec::new, |values| (**values).clone());
        values.retain(|other| !other.is::<T>());
        values.push(Arc::new(value));
        self.0 = Some(Arc::new(values));
    }

    pub(crate) fn get<T: Any>(&self) -> Option<&T> {
        self.0.as_ref()?.iter().find_map(|value| value.downcast_ref())
    }
}
