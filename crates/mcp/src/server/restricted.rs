//! The part of a source that one client can use. The rest is removed before the catalog of the client is made, so that nothing
//! after it checks grants.

use std::sync::{Arc, Mutex, PoisonError};

use execbox::{Effect, Provider};
use execbox_core::names::safe_name;
use futures_util::future::BoxFuture;

use super::{AbsentTool, ProviderSource, UnavailableNamespace};
use crate::upstream::{RejectedTool, tool_of_feature};

/// What one client can use.
pub trait Grant: Send + Sync {
    /// Whether the client can use the tools, prompts and resources of a namespace. The others do not exist for it.
    fn grants_namespace(&self, namespace: &str) -> bool;

    /// Whether the client can use a tool of such a namespace. `names` are its name in code and that on its server.
    fn grants_tool(&self, namespace: &str, names: [&str; 2], effect: Effect) -> bool;
}

/// A source that has what its client is granted, and nothing else of another source.
pub struct Restricted {
    source: Arc<dyn ProviderSource>,
    grant: Box<dyn Grant>,
    /// The providers of the source that were read last, and what is granted of each: a catalog is built again for other providers.
    known: Mutex<Known>,
}

type Known = Vec<(Provider, Provider)>;

impl Restricted {
    /// The part of `source` that `grant` grants.
    pub fn new(source: Arc<dyn ProviderSource>, grant: impl Grant + 'static) -> Self {
        Self { source, grant: Box::new(grant), known: Mutex::default() }
    }

    /// What is granted of a provider.
    fn part(&self, provider: &Provider) -> Provider {
        provider.only(|tool, effect| {
            self.grant.grants_tool(provider.name(), [&tool.safe_name, &tool.original_name], effect)
        })
    }

    /// What is granted of a provider of [`features`](ProviderSource::features).
    fn features_part(&self, provider: &Provider) -> Provider {
        provider.only(|method, _| {
            let tool = tool_of_feature(&method.original_name);
            tool.is_none_or(|tool| self.grant.grants_tool(provider.name(), [tool, tool], Effect::ReadOnly))
        })
    }

    /// The source's providers, with what is granted of each.
    fn parts(&self) -> Known {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let providers = self.source.providers().into_iter();
        let providers = providers.filter(|provider| self.grant.grants_namespace(provider.name()));
        let parts = providers.map(|provider| {
            let is_it = |(other, _): &&(Provider, Provider)| std::ptr::eq(other.manifest(), provider.manifest());
            let part = known.iter().find(is_it).map(|(_, part)| part.clone());
            let part = part.unwrap_or_else(|| self.part(&provider));
            (provider, part)
        });
        *known = parts.collect();
        known.clone()
    }
}

impl ProviderSource for Restricted {
    fn providers(&self) -> Vec<Provider> {
        self.parts().into_iter().map(|(_, part)| part).collect()
    }

    fn unavailable(&self) -> Vec<UnavailableNamespace> {
        let mut unavailable = self.source.unavailable();
        unavailable.retain(|missing| self.grant.grants_namespace(&missing.name));
        unavailable
    }

    fn settled<'a>(&'a self, namespaces: &'a [String]) -> BoxFuture<'a, ()> {
        self.source.settled(namespaces)
    }

    fn is_exposed(&self, namespace: &str, names: [&str; 2]) -> bool {
        self.source.is_exposed(namespace, names)
    }

    fn has_prefix(&self, namespace: &str) -> bool {
        self.source.has_prefix(namespace)
    }

    fn features(&self) -> Option<Vec<Provider>> {
        let mut features = self.source.features()?;
        features.retain(|provider| self.grant.grants_namespace(provider.name()));
        Some(features.iter().map(|provider| self.features_part(provider)).collect())
    }

    fn absent_tool(&self, namespace: &str, tool: &str) -> Option<AbsentTool> {
        if !self.grant.grants_namespace(namespace) {
            return None;
        }
        let is_named = |name: &str| name == tool || safe_name(name) == tool;
        let is_withheld = self.parts().iter().any(|(whole, _)| {
            whole.name() == namespace && whole.manifest().tools.iter().any(|shown| is_named(&shown.original_name))
        });
        if is_withheld { Some(AbsentTool::Denied) } else { self.source.absent_tool(namespace, tool) }
    }

    fn rejected_tools(&self) -> Vec<(String, RejectedTool)> {
        let mut rejected = self.source.rejected_tools();
        rejected.retain(|(namespace, tool)| {
            self.grant.grants_namespace(namespace)
                && self.grant.grants_tool(namespace, [&safe_name(&tool.name), &tool.name], Effect::Unstated)
        });
        rejected
    }

    fn unread_parts(&self, namespace: &str, tool: &str) -> Vec<String> {
        self.source.unread_parts(namespace, tool)
    }
}
