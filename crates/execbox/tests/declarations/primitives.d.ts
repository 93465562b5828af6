declare namespace demo {
  function every(input: {
    text: string;
    ratio: number;
    count: number;
    flag: boolean;
    nothing: null;
    anything: unknown;
    list: unknown[];
    map: { [key: string]: unknown };
  }): Promise<string>;
}
