const { target } = await time.convert_time({
  source_timezone: "Asia/Kolkata",
  time: "09:30",
  target_timezone: "Asia/Tokyo",
});
return { time: target.datetime.slice(11, 16) };
