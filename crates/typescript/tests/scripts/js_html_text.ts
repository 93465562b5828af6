'</script>' + `</script>` + String.raw`</script>`
