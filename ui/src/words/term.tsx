// Text whose terms of the field explain themselves on hover and on focus.
import { Tooltip } from "@mantine/core";
import { Fragment } from "react";
import { findTerms, glossary } from "./glossary";

export function Sentence({ text }: { text: string }) {
  return findTerms(text).map((part, i) =>
    part.term === null ? (
      <Fragment key={i}>{part.text}</Fragment>
    ) : (
      <Tooltip key={i} label={glossary[part.term]} multiline w={280} withArrow events={{ hover: true, focus: true, touch: true }}>
        <span className="term" tabIndex={0}>
          {part.text}
        </span>
      </Tooltip>
    ),
  );
}
