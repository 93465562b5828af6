let text = "0123456789abcdef";
for (;;) {
  text += text;
  text.charCodeAt(text.length - 1); // makes engines copy what they have only noted to be concatenated
}
