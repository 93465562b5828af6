declare namespace Node {
  function Node(input?: {
    p0?: PromiseType;
    p1?: RecordType;
    p2?: ArrayType;
    p3?: StringType;
    p4?: ObjectType;
    p5?: Any;
    p6?: IssueState;
    p7?: DictStrInt;
    p8?: Type3d;
    p9?: Schema0;
    p10?: NodeInput;
    p11?: ErrorType;
    p12?: Node;
  }): Promise<unknown>;
  type PromiseType = { n?: 0 };
  type RecordType = { n?: 1 };
  type ArrayType = { n?: 2 };
  type StringType = { n?: 3 };
  type ObjectType = { n?: 4 };
  type Any = { n?: 5 };
  type IssueState = { n?: 6 };
  type DictStrInt = { n?: 7 };
  type Type3d = { n?: 8 };
  type Schema0 = { n?: 9 };
  type NodeInput = { n?: 10 };
  type ErrorType = { n?: 11 };
  type Node = { n?: 12 };
  function delete_(input?: {}): Promise<unknown>;
  function $then(input?: {}): Promise<unknown>;
}
