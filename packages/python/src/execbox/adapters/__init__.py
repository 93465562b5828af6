"""Execbox in frameworks of agents: each module needs the package of its framework, and is imported by its name.

| module | gives |
|---|---|
| `execbox.adapters.openai_agents` | a function tool of the OpenAI Agents SDK |
| `execbox.adapters.langchain` | a tool of LangChain |
| `execbox.adapters.pydantic_ai` | a toolset of Pydantic AI |
| `execbox.adapters.fastmcp` | the sandbox of FastMCP's code mode |

For other frameworks, `Executor.code_tool` has all that a model needs.
"""
