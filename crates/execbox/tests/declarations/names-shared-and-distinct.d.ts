declare namespace demo {
  function a(input?: { node?: Node }): Promise<unknown>;
  type Node = { id?: string; next?: Node };
  function b(input?: { node?: Node }): Promise<unknown>;
  function c(input?: { node?: Node__2 }): Promise<{ node?: Node__2 }>;
  type Node__2 = { id?: number };
  function d(input?: { e?: Edge }): Promise<unknown>;
  type Edge = { to?: Node };
  function e(input?: { e?: Edge__2 }): Promise<unknown>;
  type Edge__2 = { to?: Node__2 };
}
