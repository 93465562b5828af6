declare namespace demo {
  function f(input: {
    a: {
      /** A description. */
      name0_0?: string;
    } | {
      /** A description. */
      name0_1?: string;
    } | {
      /** A description. */
      name0_2?: string;
    } | {
      /** A description. */
      name0_3?: string;
    } | {
      /** A description. */
      name0_4?: string;
    } | {
      /** A description. */
      name0_5?: string;
    } | {
      /** A description. */
      name0_6?: string;
    } | {
      /** A description. */
      name0_7?: string;
    } | {
      /** A description. */
      name0_8?: string;
    } | {
      /** A description. */
      name0_9?: string;
    } | {
      /** A description. */
      name0_10?: string;
    } | {
      /** A description. */
      name0_11?: string;
    } | {
      /** A description. */
      name0_12?: string;
    } | {
      /** A description. */
      name0_13?: string;
    } | {
      /** A description. */
      name0_14?: string;
    } | {
      /** A description. */
      name0_15?: string;
    } | {
      /** A description. */
      name0_16?: string;
    } | {
      /** A description. */
      name0_17?: string;
    } | {
      /** A description. */
      name0_18?: string;
    } | {
      /** A description. */
      name0_19?: string;
    } | {
      /** A description. */
      name0_20?: string;
    } | {
      /** A description. */
      name0_21?: string;
    } | {
      /** A description. */
      name0_22?: string;
    } | {
      /** A description. */
      name0_23?: string;
    } | {
      /** A description. */
      name0_24?: string;
    } | {
      /** A description. */
      name0_25?: string;
    } | {
      /** A description. */
      name0_26?: string;
    } | {
      /** A description. */
      name0_27?: string;
    } | {
      /** A description. */
      name0_28?: string;
    } | {
      /** A description. */
      name0_29?: string;
    } | {
      /** A description. */
      name0_30?: string;
    } | {
      /** A description. */
      name0_31?: string;
    } | {
      /** A description. */
      name0_32?: string;
    } | {
      /** A description. */
      name0_33?: string;
    } | {
      /** A description. */
      name0_34?: string;
    } | {
      /** A description. */
      name0_35?: string;
    } | {
      /** A description. */
      name0_36?: string;
    } | {
      /** A description. */
      name0_37?: string;
    } | {
      /** A description. */
      name0_38?: string;
    } | {
      /** A description. */
      name0_39?: string;
    } | {
      /** A description. */
      name1_0?: string;
    } | {
      /** A description. */
      name1_1?: string;
    } | {
      /** A description. */
      name1_2?: string;
    } | {
      /** A description. */
      name1_3?: string;
    } | {
      /** A description. */
      name1_4?: string;
    } | {
      /** A description. */
      name1_5?: string;
    } | {
      /** A description. */
      name1_6?: string;
    } | {
      /** A description. */
      name1_7?: string;
    } | {
      /** A description. */
      name1_8?: string;
    } | {
      /** A description. */
      name1_9?: string;
    } | {
      /** A description. */
      name1_10?: string;
    } | {
      /** A description. */
      name1_11?: string;
    } | {
      /** A description. */
      name1_12?: string;
    } | {
      /** A description. */
      name1_13?: string;
    } | {
      /** A description. */
      name1_14?: string;
    } | {
      /** A description. */
      name1_15?: string;
    } | {
      /** A description. */
      name1_16?: string;
    } | {
      /** A description. */
      name1_17?: string;
    } | {
      /** A description. */
      name1_18?: string;
    } | {
      /** A description. */
      name1_19?: string;
    } | {
      /** A description. */
      name1_20?: string;
    } | {
      /** A description. */
      name1_21?: string;
    } | {
      /** A description. */
      name1_22?: string;
    } | {
      /** A description. */
      name1_23?: string;
    } | {
      /** A description. */
      name1_24?: string;
    } | {
      /** A description. */
      name1_25?: string;
    } | {
      /** A description. */
      name1_26?: string;
    } | {
      /** A description. */
      name1_27?: string;
    } | {
      /** A description. */
      name1_28?: string;
    } | {
      /** A description. */
      name1_29?: string;
    } | {
      /** A description. */
      name1_30?: string;
    } | {
      /** A description. */
      name1_31?: string;
    } | {
      /** A description. */
      name1_32?: string;
    } | {
      /** A description. */
      name1_33?: string;
    } | {
      /** A description. */
      name1_34?: string;
    } | {
      /** A description. */
      name1_35?: string;
    } | {
      /** A description. */
      name1_36?: string;
    } | {
      /** A description. */
      name1_37?: string;
    } | {
      /** A description. */
      name1_38?: string;
    } | {
      /** A description. */
      name1_39?: string;
    } | {
      /** A description. */
      name2_0?: string;
    } | {
      /** A description. */
      name2_1?: string;
    } | {
      /** A description. */
      name2_2?: string;
    } | {
      /** A description. */
      name2_3?: string;
    } | {
      /** A description. */
      name2_4?: string;
    } | {
      /** A description. */
      name2_5?: string;
    } | {
      /** A description. */
      name2_6?: string;
    } | {
      /** A description. */
      name2_7?: string;
    } | {
      /** A description. */
      name2_8?: string;
    } | {
      /** A description. */
      name2_9?: string;
    } | {
      /** A description. */
      name2_10?: string;
    } | {
      /** A description. */
      name2_11?: string;
    } | {
      /** A description. */
      name2_12?: string;
    } | {
      /** A description. */
      name2_13?: string;
    } | {
      /** A description. */
      name2_14?: string;
    } | {
      /** A description. */
      name2_15?: string;
    } | {
      /** A description. */
      name2_16?: string;
    } | {
      /** A description. */
      name2_17?: string;
    } | {
      /** A description. */
      name2_18?: string;
    } | {
      /** A description. */
      name2_19?: string;
    } | {
      /** A description. */
      name2_20?: string;
    } | {
      /** A description. */
      name2_21?: string;
    } | {
      /** A description. */
      name2_22?: string;
    } | {
      /** A description. */
      name2_23?: string;
    } | {
      /** A description. */
      name2_24?: string;
    } | {
      /** A description. */
      name2_25?: string;
    } | {
      /** A description. */
      name2_26?: string;
    } | {
      /** A description. */
      name2_27?: string;
    } | {
      /** A description. */
      name2_28?: string;
    } | {
      /** A description. */
      name2_29?: string;
    } | {
      /** A description. */
      name2_30?: string;
    } | {
      /** A description. */
      name2_31?: string;
    } | {
      /** A description. */
      name2_32?: string;
    } | {
      /** A description. */
      name2_33?: string;
    } | {
      /** A description. */
      name2_34?: string;
    } | {
      /** A description. */
      name2_35?: string;
    } | {
      /** A description. */
      name2_36?: string;
    } | {
      /** A description. */
      name2_37?: string;
    } | {
      /** A description. */
      name2_38?: string;
    } | {
      /** A description. */
      name2_39?: string;
    } | {
      /** A description. */
      name3_0?: string;
    } | {
      /** A description. */
      name3_1?: string;
    } | {
      /** A description. */
      name3_2?: string;
    } | {
      /** A description. */
      name3_3?: string;
    } | {
      /** A description. */
      name3_4?: string;
    } | {
      /** A description. */
      name3_5?: string;
    } | {
      /** A description. */
      name3_6?: string;
    } | {
      /** A description. */
      name3_7?: string;
    } | {
      /** A description. */
      name3_8?: string;
    } | {
      /** A description. */
      name3_9?: string;
    } | {
      /** A description. */
      name3_10?: string;
    } | {
      /** A description. */
      name3_11?: string;
    } | {
      /** A description. */
      name3_12?: string;
    } | {
      /** A description. */
      name3_13?: string;
    } | {
      /** A description. */
      name3_14?: string;
    } | {
      /** A description. */
      name3_15?: string;
    } | {
      /** A description. */
      name3_16?: string;
    } | {
      /** A description. */
      name3_17?: string;
    } | {
      /** A description. */
      name3_18?: string;
    } | {
      /** A description. */
      name3_19?: string;
    } | {
      /** A description. */
      name3_20?: string;
    } | {
      /** A description. */
      name3_21?: string;
    } | {
      /** A description. */
      name3_22?: string;
    } | {
      /** A description. */
      name3_23?: string;
    } | {
      /** A description. */
      name3_24?: string;
    } | {
      /** A description. */
      name3_25?: string;
    } | {
      /** A description. */
      name3_26?: string;
    } | {
      /** A description. */
      name3_27?: string;
    } | {
      /** A description. */
      name3_28?: string;
    } | {
      /** A description. */
      name3_29?: string;
    } | {
      /** A description. */
      name3_30?: string;
    } | {
      /** A description. */
      name3_31?: string;
    } | {
      /** A description. */
      name3_32?: string;
    } | {
      /** A description. */
      name3_33?: string;
    } | {
      /** A description. */
      name3_34?: string;
    } | {
      /** A description. */
      name3_35?: string;
    } | {
      /** A description. */
      name3_36?: string;
    } | {
      /** A description. */
      name3_37?: string;
    } | {
      /** A description. */
      name3_38?: string;
    } | {
      /** A description. */
      name3_39?: string;
    } | {
      /** A description. */
      name4_0?: string;
    } | {
      /** A description. */
      name4_1?: string;
    } | {
      /** A description. */
      name4_2?: string;
    } | {
      /** A description. */
      name4_3?: string;
    } | {
      /** A description. */
      name4_4?: string;
    } | {
      /** A description. */
      name4_5?: string;
    } | {
      /** A description. */
      name4_6?: string;
    } | {
      /** A description. */
      name4_7?: string;
    } | {
      /** A description. */
      name4_8?: string;
    } | {
      /** A description. */
      name4_9?: string;
    } | {
      /** A description. */
      name4_10?: string;
    } | {
      /** A description. */
      name4_11?: string;
    } | {
      /** A description. */
      name4_12?: string;
    } | {
      /** A description. */
      name4_13?: string;
    } | {
      /** A description. */
      name4_14?: string;
    } | {
      /** A description. */
      name4_15?: string;
    } | {
      /** A description. */
      name4_16?: string;
    } | {
      /** A description. */
      name4_17?: string;
    } | {
      /** A description. */
      name4_18?: string;
    } | {
      /** A description. */
      name4_19?: string;
    } | {
      /** A description. */
      name4_20?: string;
    } | {
      /** A description. */
      name4_21?: string;
    } | {
      /** A description. */
      name4_22?: string;
    } | {
      /** A description. */
      name4_23?: string;
    } | {
      /** A description. */
      name4_24?: string;
    } | {
      /** A description. */
      name4_25?: string;
    } | {
      /** A description. */
      name4_26?: string;
    } | {
      /** A description. */
      name4_27?: string;
    } | {
      /** A description. */
      name4_28?: string;
    } | {
      /** A description. */
      name4_29?: string;
    } | {
      /** A description. */
      name4_30?: string;
    } | {
      /** A description. */
      name4_31?: string;
    } | {
      /** A description. */
      name4_32?: string;
    } | {
      /** A description. */
      name4_33?: string;
    } | {
      /** A description. */
      name4_34?: string;
    } | {
      /** A description. */
      name4_35?: string;
    } | {
      /** A description. */
      name4_36?: string;
    } | {
      /** A description. */
      name4_37?: string;
    } | {
      /** A description. */
      name4_38?: string;
    } | {
      /** A description. */
      name4_39?: string;
    } | {
      /** A description. */
      name5_0?: string;
    } | {
      /** A description. */
      name5_1?: string;
    } | {
      /** A description. */
      name5_2?: string;
    } | {
      /** A description. */
      name5_3?: string;
    } | {
      /** A description. */
      name5_4?: string;
    } | {
      /** A description. */
      name5_5?: string;
    } | {
      /** A description. */
      name5_6?: string;
    } | {
      /** A description. */
      name5_7?: string;
    } | {
      /** A description. */
      name5_8?: string;
    } | {
      /** A description. */
      name5_9?: string;
    } | {
      /** A description. */
      name5_10?: string;
    } | {
      /** A description. */
      name5_11?: string;
    } | {
      /** A description. */
      name5_12?: string;
    } | {
      /** A description. */
      name5_13?: string;
    } | {
      /** A description. */
      name5_14?: string;
    } | {
      /** A description. */
      name5_15?: string;
    } | {
      /** A description. */
      name5_16?: string;
    } | {
      /** A description. */
      name5_17?: string;
    } | {
      /** A description. */
      name5_18?: string;
    } | {
      /** A description. */
      name5_19?: string;
    } | {
      /** A description. */
      name5_20?: string;
    } | {
      /** A description. */
      name5_21?: string;
    } | {
      /** A description. */
      name5_22?: string;
    } | {
      /** A description. */
      name5_23?: string;
    } | {
      /** A description. */
      name5_24?: string;
    } | {
      /** A description. */
      name5_25?: string;
    } | {
      /** A description. */
      name5_26?: string;
    } | {
      /** A description. */
      name5_27?: string;
    } | {
      /** A description. */
      name5_28?: string;
    } | {
      /** A description. */
      name5_29?: string;
    } | {
      /** A description. */
      name5_30?: string;
    } | {
      /** A description. */
      name5_31?: string;
    } | {
      /** A description. */
      name5_32?: string;
    } | {
      /** A description. */
      name5_33?: string;
    } | {
      /** A description. */
      name5_34?: string;
    } | {
      /** A description. */
      name5_35?: string;
    } | {
      /** A description. */
      name5_36?: string;
    } | {
      /** A description. */
      name5_37?: string;
    } | {
      /** A description. */
      name5_38?: string;
    } | {
      /** A description. */
      name5_39?: string;
    } | {
      /** A description. */
      name6_0?: string;
    } | {
      /** A description. */
      name6_1?: string;
    } | {
      /** A description. */
      name6_2?: string;
    } | {
      /** A description. */
      name6_3?: string;
    } | {
      /** A description. */
      name6_4?: string;
    } | {
      /** A description. */
      name6_5?: string;
    } | {
      /** A description. */
      name6_6?: string;
    } | {
      /** A description. */
      name6_7?: string;
    } | {
      /** A description. */
      name6_8?: string;
    } | {
      /** A description. */
      name6_9?: string;
    } | {
      /** A description. */
      name6_10?: string;
    } | {
      /** A description. */
      name6_11?: string;
    } | {
      /** A description. */
      name6_12?: string;
    } | {
      /** A description. */
      name6_13?: string;
    } | {
      /** A description. */
      name6_14?: string;
    } | {
      /** A description. */
      name6_15?: string;
    } | {
      /** A description. */
      name6_16?: string;
    } | {
      /** A description. */
      name6_17?: string;
    } | {
      /** A description. */
      name6_18?: string;
    } | {
      /** A description. */
      name6_19?: string;
    } | {
      /** A description. */
      name6_20?: string;
    } | {
      /** A description. */
      name6_21?: string;
    } | {
      /** A description. */
      name6_22?: string;
    } | {
      /** A description. */
      name6_23?: string;
    } | {
      /** A description. */
      name6_24?: string;
    } | {
      /** A description. */
      name6_25?: string;
    } | {
      /** A description. */
      name6_26?: string;
    } | {
      /** A description. */
      name6_27?: string;
    } | {
      /** A description. */
      name6_28?: string;
    } | {
      /** A description. */
      name6_29?: string;
    } | {
      /** A description. */
      name6_30?: string;
    } | {
      /** A description. */
      name6_31?: string;
    } | {
      /** A description. */
      name6_32?: string;
    } | {
      /** A description. */
      name6_33?: string;
    } | {
      /** A description. */
      name6_34?: string;
    } | {
      /** A description. */
      name6_35?: string;
    } | {
      /** A description. */
      name6_36?: string;
    } | {
      /** A description. */
      name6_37?: string;
    } | {
      /** A description. */
      name6_38?: string;
    } | {
      /** A description. */
      name6_39?: string;
    } | {
      /** A description. */
      name7_0?: string;
    } | {
      /** A description. */
      name7_1?: string;
    } | {
      /** A description. */
      name7_2?: string;
    } | {
      /** A description. */
      name7_3?: string;
    } | {
      /** A description. */
      name7_4?: string;
    } | {
      /** A description. */
      name7_5?: string;
    } | {
      /** A description. */
      name7_6?: string;
    } | {
      /** A description. */
      name7_7?: string;
    } | {
      /** A description. */
      name7_8?: string;
    } | {
      /** A description. */
      name7_9?: string;
    } | {
      /** A description. */
      name7_10?: string;
    } | {
      /** A description. */
      name7_11?: string;
    } | {
      /** A description. */
      name7_12?: string;
    } | {
      /** A description. */
      name7_13?: string;
    } | {
      /** A description. */
      name7_14?: string;
    } | {
      /** A description. */
      name7_15?: string;
    } | {
      /** A description. */
      name7_16?: string;
    } | {
      /** A description. */
      name7_17?: string;
    } | {
      /** A description. */
      name7_18?: string;
    } | {
      /** A description. */
      name7_19?: string;
    } | {
      /** A description. */
      name7_20?: string;
    } | {
      /** A description. */
      name7_21?: string;
    } | {
      /** A description. */
      name7_22?: string;
    } | {
      /** A description. */
      name7_23?: string;
    } | {
      /** A description. */
      name7_24?: string;
    } | {
      /** A description. */
      name7_25?: string;
    } | {
      /** A description. */
      name7_26?: string;
    } | {
      /** A description. */
      name7_27?: string;
    } | {
      /** A description. */
      name7_28?: string;
    } | {
      /** A description. */
      name7_29?: string;
    } | {
      /** A description. */
      name7_30?: string;
    } | {
      /** A description. */
      name7_31?: string;
    } | {
      /** A description. */
      name7_32?: string;
    } | {
      /** A description. */
      name7_33?: string;
    } | {
      /** A description. */
      name7_34?: string;
    } | {
      /** A description. */
      name7_35?: string;
    } | {
      /** A description. */
      name7_36?: string;
    } | {
      /** A description. */
      name7_37?: string;
    } | {
      /** A description. */
      name7_38?: string;
    } | {
      /** A description. */
      name7_39?: string;
    } | {
      /** A description. */
      name8_0?: string;
    } | {
      /** A description. */
      name8_1?: string;
    } | {
      /** A description. */
      name8_2?: string;
    } | {
      /** A description. */
      name8_3?: string;
    } | {
      /** A description. */
      name8_4?: string;
    } | {
      /** A description. */
      name8_5?: string;
    } | {
      /** A description. */
      name8_6?: string;
    } | {
      /** A description. */
      name8_7?: string;
    } | {
      /** A description. */
      name8_8?: string;
    } | {
      /** A description. */
      name8_9?: string;
    } | {
      /** A description. */
      name8_10?: string;
    } | {
      /** A description. */
      name8_11?: string;
    } | {
      /** A description. */
      name8_12?: string;
    } | {
      /** A description. */
      name8_13?: string;
    } | {
      /** A description. */
      name8_14?: string;
    } | {
      /** A description. */
      name8_15?: string;
    } | {
      /** A description. */
      name8_16?: string;
    } | {
      /** A description. */
      name8_17?: string;
    } | {
      /** A description. */
      name8_18?: string;
    } | {
      /** A description. */
      name8_19?: string;
    } | {
      /** A description. */
      name8_20?: string;
    } | {
      /** A description. */
      name8_21?: string;
    } | {
      /** A description. */
      name8_22?: string;
    } | {
      /** A description. */
      name8_23?: string;
    } | {
      /** A description. */
      name8_24?: string;
    } | {
      /** A description. */
      name8_25?: string;
    } | {
      /** A description. */
      name8_26?: string;
    } | {
      /** A description. */
      name8_27?: string;
    } | {
      /** A description. */
      name8_28?: string;
    } | {
      /** A description. */
      name8_29?: string;
    } | {
      /** A description. */
      name8_30?: string;
    } | {
      /** A description. */
      name8_31?: string;
    } | {
      /** A description. */
      name8_32?: string;
    } | {
      /** A description. */
      name8_33?: string;
    } | {
      /** A description. */
      name8_34?: string;
    } | {
      /** A description. */
      name8_35?: string;
    } | {
      /** A description. */
      name8_36?: string;
    } | {
      /** A description. */
      name8_37?: string;
    } | {
      /** A description. */
      name8_38?: string;
    } | {
      /** A description. */
      name8_39?: string;
    } | {
      /** A description. */
      name9_0?: string;
    } | {
      /** A description. */
      name9_1?: string;
    } | {
      /** A description. */
      name9_2?: string;
    } | {
      /** A description. */
      name9_3?: string;
    } | {
      /** A description. */
      name9_4?: string;
    } | {
      /** A description. */
      name9_5?: string;
    } | {
      /** A description. */
      name9_6?: string;
    } | {
      /** A description. */
      name9_7?: string;
    } | {
      /** A description. */
      name9_8?: string;
    } | {
      /** A description. */
      name9_9?: string;
    } | {
      /** A description. */
      name9_10?: string;
    } | {
      /** A description. */
      name9_11?: string;
    } | {
      /** A description. */
      name9_12?: string;
    } | {
      /** A description. */
      name9_13?: string;
    } | {
      /** A description. */
      name9_14?: string;
    } | {
      /** A description. */
      name9_15?: string;
    } | {
      /** A description. */
      name9_16?: string;
    } | {
      /** A description. */
      name9_17?: string;
    } | {
      /** A description. */
      name9_18?: string;
    } | {
      /** A description. */
      name9_19?: string;
    } | {
      /** A description. */
      name9_20?: string;
    } | {
      /** A description. */
      name9_21?: string;
    } | {
      /** A description. */
      name9_22?: string;
    } | {
      /** A description. */
      name9_23?: string;
    } | {
      /** A description. */
      name9_24?: string;
    } | {
      /** A description. */
      name9_25?: string;
    } | {
      /** A description. */
      name9_26?: string;
    } | {
      /** A description. */
      name9_27?: string;
    } | {
      /** A description. */
      name9_28?: string;
    } | {
      /** A description. */
      name9_29?: string;
    } | {
      /** A description. */
      name9_30?: string;
    } | {
      /** A description. */
      name9_31?: string;
    } | {
      /** A description. */
      name9_32?: string;
    } | {
      /** A description. */
      name9_33?: string;
    } | {
      /** A description. */
      name9_34?: string;
    } | {
      /** A description. */
      name9_35?: string;
    } | {
      /** A description. */
      name9_36?: string;
    } | {
      /** A description. */
      name9_37?: string;
    } | {
      /** A description. */
      name9_38?: string;
    } | {
      /** A description. */
      name9_39?: string;
    } | {
      /** A description. */
      name10_0?: string;
    } | {
      /** A description. */
      name10_1?: string;
    } | {
      /** A description. */
      name10_2?: string;
    } | {
      /** A description. */
      name10_3?: string;
    } | {
      /** A description. */
      name10_4?: string;
    } | {
      /** A description. */
      name10_5?: string;
    } | {
      /** A description. */
      name10_6?: string;
    } | {
      /** A description. */
      name10_7?: string;
    } | {
      /** A description. */
      name10_8?: string;
    } | {
      /** A description. */
      name10_9?: string;
    } | {
      /** A description. */
      name10_10?: string;
    } | {
      /** A description. */
      name10_11?: string;
    } | {
      /** A description. */
      name10_12?: string;
    } | {
      /** A description. */
      name10_13?: string;
    } | {
      /** A description. */
      name10_14?: string;
    } | {
      /** A description. */
      name10_15?: string;
    } | {
      /** A description. */
      name10_16?: string;
    } | {
      /** A description. */
      name10_17?: string;
    } | {
      /** A description. */
      name10_18?: string;
    } | {
      /** A description. */
      name10_19?: string;
    } | {
      /** A description. */
      name10_20?: string;
    } | {
      /** A description. */
      name10_21?: string;
    } | {
      /** A description. */
      name10_22?: string;
    } | {
      /** A description. */
      name10_23?: string;
    } | {
      /** A description. */
      name10_24?: string;
    } | {
      /** A description. */
      name10_25?: string;
    } | {
      /** A description. */
      name10_26?: string;
    } | {
      /** A description. */
      name10_27?: string;
    } | {
      /** A description. */
      name10_28?: string;
    } | {
      /** A description. */
      name10_29?: string;
    } | {
      /** A description. */
      name10_30?: string;
    } | {
      /** A description. */
      name10_31?: string;
    } | {
      /** A description. */
      name10_32?: string;
    } | {
      /** A description. */
      name10_33?: string;
    } | {
      /** A description. */
      name10_34?: string;
    } | {
      /** A description. */
      name10_35?: string;
    } | {
      /** A description. */
      name10_36?: string;
    } | {
      /** A description. */
      name10_37?: string;
    } | {
      /** A description. */
      name10_38?: string;
    } | {
      /** A description. */
      name10_39?: string;
    } | {
      /** A description. */
      name11_0?: string;
    } | {
      /** A description. */
      name11_1?: string;
    } | {
      /** A description. */
      name11_2?: string;
    } | {
      /** A description. */
      name11_3?: string;
    } | {
      /** A description. */
      name11_4?: string;
    } | {
      /** A description. */
      name11_5?: string;
    } | {
      /** A description. */
      name11_6?: string;
    } | {
      /** A description. */
      name11_7?: string;
    } | {
      /** A description. */
      name11_8?: string;
    } | {
      /** A description. */
      name11_9?: string;
    } | {
      /** A description. */
      name11_10?: string;
    } | {
      /** A description. */
      name11_11?: string;
    } | {
      /** A description. */
      name11_12?: string;
    } | {
      /** A description. */
      name11_13?: string;
    } | {
      /** A description. */
      name11_14?: string;
    } | {
      /** A description. */
      name11_15?: string;
    } | {
      /** A description. */
      name11_16?: string;
    } | {
      /** A description. */
      name11_17?: string;
    } | {
      /** A description. */
      name11_18?: string;
    } | {
      /** A description. */
      name11_19?: string;
    } | {
      /** A description. */
      name11_20?: string;
    } | {
      /** A description. */
      name11_21?: string;
    } | {
      /** A description. */
      name11_22?: string;
    } | {
      /** A description. */
      name11_23?: string;
    } | {
      /** A description. */
      name11_24?: string;
    } | {
      /** A description. */
      name11_25?: string;
    } | {
      /** A description. */
      name11_26?: string;
    } | {
      /** A description. */
      name11_27?: string;
    } | {
      /** A description. */
      name11_28?: string;
    } | {
      /** A description. */
      name11_29?: string;
    } | {
      /** A description. */
      name11_30?: string;
    } | {
      /** A description. */
      name11_31?: string;
    } | {
      /** A description. */
      name11_32?: string;
    } | {
      /** A description. */
      name11_33?: string;
    } | {
      /** A description. */
      name11_34?: string;
    } | {
      /** A description. */
      name11_35?: string;
    } | {
      /** A description. */
      name11_36?: string;
    } | {
      /** A description. */
      name11_37?: string;
    } | {
      /** A description. */
      name11_38?: string;
    } | {
      /** A description. */
      name11_39?: string;
    } | {
      /** A description. */
      name12_0?: string;
    } | {
      /** A description. */
      name12_1?: string;
    } | {
      /** A description. */
      name12_2?: string;
    } | {
      /** A description. */
      name12_3?: string;
    } | {
      /** A description. */
      name12_4?: string;
    } | {
      /** A description. */
      name12_5?: string;
    } | {
      /** A description. */
      name12_6?: string;
    } | {
      /** A description. */
      name12_7?: string;
    } | {
      /** A description. */
      name12_8?: string;
    } | {
      /** A description. */
      name12_9?: string;
    } | {
      /** A description. */
      name12_10?: string;
    } | {
      /** A description. */
      name12_11?: string;
    } | {
      /** A description. */
      name12_12?: string;
    } | {
      /** A description. */
      name12_13?: string;
    } | {
      /** A description. */
      name12_14?: string;
    } | {
      /** A description. */
      name12_15?: string;
    } | {
      /** A description. */
      name12_16?: string;
    } | {
      /** A description. */
      name12_17?: string;
    } | {
      /** A description. */
      name12_18?: string;
    } | {
      /** A description. */
      name12_19?: string;
    } | {
      /** A description. */
      name12_20?: string;
    } | {
      /** A description. */
      name12_21?: string;
    } | {
      /** A description. */
      name12_22?: string;
    } | {
      /** A description. */
      name12_23?: string;
    } | {
      /** A description. */
      name12_24?: string;
    } | {
      /** A description. */
      name12_25?: string;
    } | {
      /** A description. */
      name12_26?: string;
    } | {
      /** A description. */
      name12_27?: string;
    } | {
      /** A description. */
      name12_28?: string;
    } | {
      /** A description. */
      name12_29?: string;
    } | {
      /** A description. */
      name12_30?: string;
    } | {
      /** A description. */
      name12_31?: string;
    } | {
      /** A description. */
      name12_32?: string;
    } | {
      /** A description. */
      name12_33?: string;
    } | {
      /** A description. */
      name12_34?: string;
    } | {
      /** A description. */
      name12_35?: string;
    } | {
      /** A description. */
      name12_36?: string;
    } | {
      /** A description. */
      name12_37?: string;
    } | {
      /** A description. */
      name12_38?: string;
    } | {
      /** A description. */
      name12_39?: string;
    } | {
      /** A description. */
      name13_0?: string;
    } | {
      /** A description. */
      name13_1?: string;
    } | {
      /** A description. */
      name13_2?: unknown;
    } | unknown /* … 37 more */ | unknown /* … 26 more */;
    /* … 1 more */ [key: string]: unknown;
  }): Promise<unknown>;
}
