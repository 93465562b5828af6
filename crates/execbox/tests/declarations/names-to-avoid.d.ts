declare namespace Node {
  function Node(input?: {
    p0?: Items;
    p1?: PromiseType;
    p2?: RecordType;
    p3?: ArrayType;
    p4?: StringType;
    p5?: ObjectType;
    p6?: Any;
    p7?: IssueState;
    p8?: DictStrInt;
    p9?: Type3d;
    p10?: Schema0;
    p11?: Type;
    p12?: ErrorType;
    p13?: Node;
  }): Promise<unknown>;
  type Items = { n?: 0 };
  type PromiseType = { n?: 1 };
  type RecordType = { n?: 2 };
  type ArrayType = { n?: 3 };
  type StringType = { n?: 4 };
  type ObjectType = { n?: 5 };
  type Any = { n?: 6 };
  type IssueState = { n?: 7 };
  type DictStrInt = { n?: 8 };
  type Type3d = { n?: 9 };
  type Schema0 = { n?: 10 };
  type Type = { n?: 11 };
  type ErrorType = { n?: 12 };
  type Node = { n?: 13 };
  function delete_(): Promise<unknown>;
  function $then(): Promise<unknown>;
}
