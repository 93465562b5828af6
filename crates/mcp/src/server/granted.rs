//! What the server grants to programs: tools, and the namespaces of its own.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use execbox::policy::Policy;
use execbox::{ExecuteError, ExecuteRequest, ExecuteResult, Provider, ScriptFunction};

use super::catalog::Catalog;
use super::explain::Explainer;
use super::finder::{self, Searched};
use super::state::{self, State};
use super::{CatalogCache, CodeServer, results};
use crate::text::words;

/// The namespaces that a server grants to programs in addition to those of its providers. A provider with such a name takes
/// precedence.
pub const OWN_NAMESPACES: [&str; 4] = [finder::NAMESPACE, results::NAMESPACE, state::VALUES, state::SNIPPETS];

/// The providers and snippets that one program is run with.
struct GrantedProviders {
    catalog: Arc<Catalog>,
    /// The search, earlier results, and the state.
    own: Vec<Provider>,
    /// The snippets that the program names, and `store.update` if it names that.
    functions: Vec<ScriptFunction>,
}

impl CodeServer {
    /// Executes a request as programs of clients are executed, without an MCP connection: with the providers, the namespaces, the
    /// policy and the observer of the server, and with the explained errors. Everything else is that of the request, such as the
    /// limits; [`max_programs`](super::ServerOptions::max_programs) does not apply. The result is whole: it is neither shortened
    /// nor redacted. Calls that need approval are put to the approver of the policy. The state is that of this handle.
    pub async fn execute(&self, request: ExecuteRequest) -> ExecuteResult {
        let policy = self.inner.options.policy.as_ref();
        let run = async |request| self.inner.executor.execute(request).await;
        let result = self.run_granted(request, self.own_state(), policy, run).await;
        result.unwrap_or_else(|why| ExecuteResult::failed(ExecuteError::internal(why), Duration::ZERO))
    }

    /// Passes a request to `run`, with what the server grants to its program, and explains its error. `policy` decides about calls of
    /// the tools of providers.
    pub(super) async fn run_granted(
        &self,
        request: ExecuteRequest,
        state: Arc<State>,
        policy: Option<&Policy>,
        run: impl AsyncFnOnce(ExecuteRequest) -> ExecuteResult,
    ) -> Result<ExecuteResult, String> {
        // A program that searches needs all namespaces, as a search of the client does.
        let is_needed = |name: &str| words(request.code()).any(|word| word == name || word == finder::NAMESPACE);
        self.settled(is_needed).await;
        let code = request.code().to_owned();
        let granted = self.run_blocking(move |server| server.grant(&code, &state)).await?;
        let GrantedProviders { catalog, own, functions } = granted;
        let has_snippets = own.iter().any(|provider| provider.name() == state::SNIPPETS);
        let providers = catalog.providers().iter().map(|provider| match policy {
            Some(policy) => provider.with_policy(policy),
            None => provider.clone(),
        });
        let request = request.functions(functions).providers(providers).providers(own.clone());
        let mut result = run(self.inner.options.observer.iter().cloned().fold(request, ExecuteRequest::observer)).await;
        if let Err(error) = &mut result.outcome {
            Explainer { server: self, granted: catalog.providers(), own, has_snippets }.explain(error);
        }
        Ok(result)
    }

    /// Collects the providers and snippets that a program is run with. May block.
    fn grant(&self, code: &str, state: &State) -> GrantedProviders {
        let CatalogCache { catalog, results, finder, .. } = self.catalog();
        let snippets = state.snippets(catalog.providers());
        let library = snippets.map(state::Snippets::library).unwrap_or_default();
        let named = snippets.map(|snippets| state::named_snippets(code, snippets, &library)).unwrap_or_default();
        let finder = match library.catalog() {
            Some(snippets) => {
                let searched = Searched { tools: Arc::clone(&catalog), snippets: Some(Arc::clone(snippets)) };
                finder::provider(searched, &self.inner.turns)
            }
            None => finder,
        };
        let values = state.values(catalog.providers());
        let sources = iter::once(code).chain(named.iter().map(|snippet| &*snippet.code));
        let update = values.as_ref().and_then(|_| state::update(sources));
        let functions = named.into_iter().chain(update).collect();
        let own = [finder, results, values, library.provider()];
        GrantedProviders { catalog, own: own.into_iter().flatten().collect(), functions }
    }
}
