declare namespace demo {
  function arrays(input: { a: unknown[][][][][][][][][][][][][][][][][][][][][][][][][][][][][][][][] }): Promise<unknown>;
  function objects(input: {
    a: {
      a?: {
        a?: {
          a?: {
            a?: {
              a?: {
                a?: {
                  a?: {
                    a?: {
                      a?: {
                        a?: {
                          a?: {
                            a?: {
                              a?: {
                                a?: {
                                  a?: {
                                    a?: {
                                      a?: {
                                        a?: {
                                          a?: {
                                            a?: {
                                              a?: {
                                                a?: {
                                                  a?: { a?: { a?: { a?: { a?: { a?: { a?: { a?: { a?: { a?: unknown } } } } } } } } };
                                                };
                                              };
                                            };
                                          };
                                        };
                                      };
                                    };
                                  };
                                };
                              };
                            };
                          };
                        };
                      };
                    };
                  };
                };
              };
            };
          };
        };
      };
    };
  }): Promise<unknown>;
  function unions(input: { a: unknown }): Promise<unknown>;
  function literals(input: { a: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[unknown]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]] }): Promise<unknown>;
}
