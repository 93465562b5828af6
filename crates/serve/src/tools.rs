//! Tools of the application: providers whose calls are requests to it.

use std::sync::Arc;

use execbox::{Effect, Provider, ProviderBuilder, Tool, ToolContext, ToolError};
use execbox_core::budget::{Budget, Meter};
use execbox_core::value::parse_json;
use serde_json::Value as Json;

use crate::execution::ExecutionKey;
use crate::messages::{AddProvider, CallTool, EffectName, ProviderAdded, ToolSpec};
use crate::peer::{Peer, Reply};
use crate::rpc::{INVALID_PARAMS, RpcError};
use crate::session::tool_names;

/// The most memory of the tools of one provider, in bytes.
const MAX_PROVIDER_BYTES: usize = 256 << 20;

impl EffectName {
    pub(crate) fn effect(self) -> Effect {
        match self {
            Self::ReadOnly => Effect::ReadOnly,
            Self::Unstated => Effect::Unstated,
            Self::Additive => Effect::Additive,
            Self::Destructive => Effect::Destructive,
        }
    }

    pub(crate) fn of(effect: Effect) -> Self {
        match effect {
            Effect::ReadOnly => Self::ReadOnly,
            Effect::Additive => Self::Additive,
            Effect::Destructive => Self::Destructive,
            _ => Self::Unstated,
        }
    }
}

/// Makes the provider with this number.
pub(crate) fn provider(params: AddProvider, number: u64, peer: &Peer) -> Result<(Provider, ProviderAdded), RpcError> {
    let AddProvider { name, description, tools, lenient, name_failed_calls } = params;
    let mut builder = Provider::builder(name).budget(Budget::new(MAX_PROVIDER_BYTES));
    if let Some(description) = description {
        builder = builder.description(description);
    }
    if name_failed_calls {
        builder = builder.name_failed_calls();
    }
    let builder = tools.into_iter().fold(builder, |builder, spec| add(builder, spec, number, peer));
    let invalid = |error: &dyn std::error::Error| RpcError::invalid(format!("params: {error}"));
    let (provider, warnings) = match lenient {
        true => builder.build_valid().map_err(|error| invalid(&error))?,
        false => (builder.build().map_err(|error| invalid(&error))?, Vec::new()),
    };
    let added = ProviderAdded {
        provider: number,
        types: provider.types().to_owned(),
        tools: tool_names(&provider),
        warnings: warnings.iter().map(ToString::to_string).collect(),
    };
    Ok((provider, added))
}

fn add(builder: ProviderBuilder, spec: ToolSpec, provider: u64, peer: &Peer) -> ProviderBuilder {
    let ToolSpec { name, description, input_schema, output_schema, effect } = spec;
    let remote = RemoteTool { peer: peer.clone(), provider, name: name.as_str().into() };
    let call = async |remote: RemoteTool, input: Json, context: ToolContext| remote.call(&input, &context).await;
    let mut tool = Tool::with_state(name, remote, call).effect(effect.effect());
    if let Some(description) = description {
        tool = tool.description(description);
    }
    if let Some(schema) = input_schema {
        tool = tool.input_schema(schema);
    }
    if let Some(schema) = output_schema {
        tool = tool.output_schema(schema);
    }
    builder.tool(tool)
}

/// A tool that the application serves.
#[derive(Clone)]
struct RemoteTool {
    peer: Peer,
    provider: u64,
    name: Arc<str>,
}

impl RemoteTool {
    async fn call(&self, input: &Json, context: &ToolContext) -> Result<Json, ToolError> {
        let key: &ExecutionKey = context.attached().ok_or("the call belongs to no execution")?;
        let (execution, call) = (&*key.id, context.call.0);
        let params = CallTool { execution, call, provider: self.provider, tool: &self.name, input };
        let answer = self.peer.request("call_tool", &params, Vec::new(), &key.budget, Some(context)).await;
        let Reply { result, charge, .. } = answer.map_err(|error| match error.code {
            INVALID_PARAMS => ToolError::invalid(error.message),
            _ => ToolError::new(error.message),
        })?;
        context.hold(charge);
        // The text is charged already; the tree is given to the program at once.
        let mut meter = Meter::new(&key.budget, usize::MAX, &|| false);
        let json = parse_json(result.get(), &mut meter);
        let json = json.map_err(|error| format!("the application's answer cannot be read: {error}"))?;
        context.hold(meter.finish());
        match json {
            Json::Object(mut members) if members.keys().all(|key| key == "value") => {
                Ok(members.remove("value").unwrap_or(Json::Null))
            }
            _ => Err("the application's answer is not an object with `value`".into()),
        }
    }
}
